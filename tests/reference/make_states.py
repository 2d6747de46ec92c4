#!/usr/bin/env python3
"""make_states.py - numbers for decoders with states that the reference has not, or has wrong: tests/reference/states/.

    python3 tests/reference/make_states.py        (numpy 2, safetensors; two runs give the same bytes)

From states.py, in doubles. First it must agree with the reference's own numbers where those are right (tiny/: all
prompts; what follows them but for nemotron_h). Then it writes

    states/jamba, states/nemotron_h     cases of tiny/ that the reference has wrong: its README says how
    states/NAME                         small random models with other switches than those of tiny/, and their numbers

in the files and names of tiny/ (expected.json without the margins). Prefill, decode and the cache of case `long`.
"""
import json
import math
import os
import sys

import numpy as np
from safetensors.numpy import load_file, save_file

sys.dont_write_bytecode = True  # nothing is left beside the sources
import states

HERE = os.path.dirname(os.path.abspath(__file__))
SEEN = 3e-5  # how far the reference's float32 may be from doubles, of the largest logit


def decode(model, prompt, tokens, steps):
    """Logits of the prompt and of steps greedy tokens, which are found unless they are given."""
    ids = list(prompt)
    found = []
    for step in range(steps + 1):
        if tokens is None:
            logits, cache = model.logits(ids)
            found.append(int(np.argmax(logits[-1])))
        else:
            found.append(tokens[step])
        if step < steps:
            ids.append(found[-1])
    logits, cache = model.logits(ids)
    return found, logits, cache


def check(name, decodes):
    folder = os.path.join(HERE, "tiny", name)
    model, theirs = states.Model(folder), load_file(os.path.join(folder, "expected.safetensors"))
    with open(os.path.join(folder, "expected.json")) as f:
        cases = json.load(f)["cases"]
    for case, one in cases.items():
        if f"{case}.prefill_logits" not in theirs:
            continue
        for row, prompt in enumerate(one["prompt"]):
            _, logits, _ = decode(model, prompt, one["tokens"][row], one["decode_steps"])
            prefill, after = theirs[f"{case}.prefill_logits"][row], theirs[f"{case}.decode_logits"][row]
            largest = np.abs(prefill).max()
            assert np.abs(logits[: len(prompt)] - prefill).max() < SEEN * largest, (name, case)
            assert not decodes or np.abs(logits[len(prompt) :] - after).max() < SEEN * largest, (name, case)


def write(folder, model, cases, max_cache_len):
    tensors, said = {}, {}
    for name, one in cases.items():
        rows = []
        for prompt in one["prompt"]:
            found, logits, cache = decode(model, prompt, None, one["decode_steps"])
            rows.append((found, logits[: len(prompt)], logits[len(prompt) :]))
        tensors[f"{name}.prefill_logits"] = np.stack([r[1] for r in rows])
        tensors[f"{name}.decode_logits"] = np.stack([r[2] for r in rows])
        said[name] = dict(one, tokens=[r[0] for r in rows])
        if name != "long":
            continue
        for key, value in cache.items():
            if key.endswith(("keys", "values")):  # the whole buffer
                value = np.pad(value, ((0, 0), (0, max_cache_len - value.shape[1]), (0, 0)))
            tensors[f"long.cache.{key}"] = value[None]
    os.makedirs(folder, exist_ok=True)
    save_file({k: np.ascontiguousarray(v, np.float32) for k, v in sorted(tensors.items())},
              os.path.join(folder, "expected.safetensors"))
    with open(os.path.join(folder, "expected.json"), "w") as f:
        json.dump({"max_cache_len": max_cache_len, "cases": said}, f, indent=1)
        f.write("\n")


def mend(name, cases):
    tiny = os.path.join(HERE, "tiny", name)
    with open(os.path.join(tiny, "expected.json")) as f:
        all_cases = json.load(f)["cases"]
    keys = ("prompt", "chunks", "decode_steps")
    chosen = {c: {k: all_cases[c][k] for k in keys if k in all_cases[c]} for c in cases}
    write(os.path.join(HERE, "states", name), states.Model(tiny), chosen, 44)


# ---- other switches ----

COMMON = {"vocab_size": 64, "hidden_size": 32, "max_position_embeddings": 128, "num_attention_heads": 4,
          "num_key_value_heads": 2, "dtype": "float32", "bos_token_id": 1, "eos_token_id": 2}
ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}


class Shapes(dict):
    def linear(self, name, out, into, bias=False):
        self[name + ".weight"] = (out, into)
        if bias:
            self[name + ".bias"] = (out,)

    def vectors(self, prefix, **widths):
        for name, width in widths.items():
            self[f"{prefix}.{name}"] = (width,)

    def attention(self, prefix, c, bias=False, out="o_proj", norms=None, gate=False):
        dim = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
        q, k = c["num_attention_heads"] * dim, c["num_key_value_heads"] * dim
        self.linear(f"{prefix}.q_proj", q * (2 if gate else 1), c["hidden_size"], bias)
        self.linear(f"{prefix}.k_proj", k, c["hidden_size"], bias)
        self.linear(f"{prefix}.v_proj", k, c["hidden_size"], bias)
        self.linear(f"{prefix}.{out}", c["hidden_size"], q, bias)
        if norms:
            self.vectors(prefix, **{f"q_{norms}.weight": dim, f"k_{norms}.weight": dim})

    def conv(self, name, channels, columns, bias):
        self[name + ".weight"] = (channels, 1, columns)
        if bias:
            self[name + ".bias"] = (channels,)

    def mlp(self, prefix, c, ffn, names=("gate_proj", "up_proj", "down_proj"), bias=False):
        for name in names[:-1]:
            self.linear(f"{prefix}.{name}", ffn, c["hidden_size"], bias)
        self.linear(f"{prefix}.{names[-1]}", c["hidden_size"], ffn, bias)

    def mamba2(self, prefix, hidden, heads, dim, groups, size, columns, biases, norm=True):
        inner, channels = heads * dim, heads * dim + 2 * groups * size
        self.linear(f"{prefix}.in_proj", inner + channels + heads, hidden, biases[0])
        self.conv(f"{prefix}.conv1d", channels, columns, biases[1])
        self.linear(f"{prefix}.out_proj", hidden, inner, biases[2])
        self.vectors(prefix, A_log=heads, D=heads, dt_bias=heads)
        if norm:
            self.vectors(prefix, **{"norm.weight": inner})


def frame(c, root, embeddings, norm):
    s = Shapes()
    s[f"{root}.{embeddings}.weight"] = (c["vocab_size"], c["hidden_size"])
    s[f"{root}.{norm}.weight"] = (c["hidden_size"],)
    if not c["tie_word_embeddings"]:
        s["lm_head.weight"] = (c["vocab_size"], c["hidden_size"])
    return s


def shapes_lfm2(c):
    s = frame(c, "model", "embed_tokens", "embedding_norm")
    multiple = c["block_multiple_of"]
    ffn = c["intermediate_size"]
    if c["block_auto_adjust_ff_dim"]:
        ffn = int(c["block_ffn_dim_multiplier"] * int(2 * ffn / 3))
        ffn = multiple * ((ffn + multiple - 1) // multiple)
    for i, kind in enumerate(c["layer_types"]):
        p, hidden = f"model.layers.{i}", c["hidden_size"]
        s.vectors(p, **{"operator_norm.weight": hidden, "ffn_norm.weight": hidden})
        s.mlp(f"{p}.feed_forward", c, ffn, ("w1", "w3", "w2"))
        if kind == "conv":
            s.linear(f"{p}.conv.in_proj", 3 * hidden, hidden, c["conv_bias"])
            s.conv(f"{p}.conv.conv", hidden, c["conv_L_cache"], c["conv_bias"])
            s.linear(f"{p}.conv.out_proj", hidden, hidden, c["conv_bias"])
        else:
            s.attention(f"{p}.self_attn", c, out="out_proj", norms="layernorm")
    return s


def shapes_mamba2(c):
    s = frame(c, "backbone", "embeddings", "norm_f")
    for i in range(c["num_hidden_layers"]):
        p = f"backbone.layers.{i}"
        s.vectors(p, **{"norm.weight": c["hidden_size"]})
        s.mamba2(f"{p}.mixer", c["hidden_size"], c["num_heads"], c["head_dim"], c["n_groups"], c["state_size"],
                 c["conv_kernel"], (c["use_bias"], c["use_conv_bias"], c["use_bias"]))
    return s


def shapes_falcon_h1(c):
    s = frame(c, "model", "embed_tokens", "final_layernorm")
    inner = c["mamba_d_ssm"] or c["mamba_expand"] * c["hidden_size"]
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}"
        s.vectors(p, **{"input_layernorm.weight": c["hidden_size"], "pre_ff_layernorm.weight": c["hidden_size"]})
        s.mamba2(f"{p}.mamba", c["hidden_size"], c["mamba_n_heads"], inner // c["mamba_n_heads"], c["mamba_n_groups"],
                 c["mamba_d_state"], c["mamba_d_conv"], (c["mamba_proj_bias"], c["mamba_conv_bias"], c["projectors_bias"]),
                 c["mamba_rms_norm"])
        s.attention(f"{p}.self_attn", c, c["attention_bias"])
        s.mlp(f"{p}.feed_forward", c, c["intermediate_size"], bias=c["mlp_bias"])
    return s


def shapes_jamba(c):
    s = frame(c, "model", "embed_tokens", "final_layernorm")
    hidden, inner, size = c["hidden_size"], c["mamba_expand"] * c["hidden_size"], c["mamba_d_state"]
    rank = math.ceil(hidden / 16) if c["mamba_dt_rank"] == "auto" else c["mamba_dt_rank"]
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}"
        s.vectors(p, **{"input_layernorm.weight": hidden, "pre_ff_layernorm.weight": hidden})
        if i % c["attn_layer_period"] == c["attn_layer_offset"]:
            s.attention(f"{p}.self_attn", c)
        else:
            s.linear(f"{p}.mamba.in_proj", 2 * inner, hidden, c["mamba_proj_bias"])
            s.conv(f"{p}.mamba.conv1d", inner, c["mamba_d_conv"], c["mamba_conv_bias"])
            s.linear(f"{p}.mamba.x_proj", rank + 2 * size, inner)
            s.linear(f"{p}.mamba.dt_proj", inner, rank, True)
            s.linear(f"{p}.mamba.out_proj", hidden, inner, c["mamba_proj_bias"])
            s.vectors(f"{p}.mamba", D=inner,
                      **{"dt_layernorm.weight": rank, "b_layernorm.weight": size, "c_layernorm.weight": size})
            s[f"{p}.mamba.A_log"] = (inner, size)
        if i % c["expert_layer_period"] == c["expert_layer_offset"] and c["num_experts"] > 1:
            s.linear(f"{p}.feed_forward.router", c["num_experts"], hidden)
            for k in range(c["num_experts"]):
                s.mlp(f"{p}.feed_forward.experts.{k}", c, c["intermediate_size"])
        else:
            s.mlp(f"{p}.feed_forward", c, c["intermediate_size"])
    return s


def shapes_nemotron_h(c):
    s = frame(c, "backbone", "embeddings", "norm_f")
    hidden, bias = c["hidden_size"], c["mlp_bias"]
    for i, kind in enumerate(c["layers_block_type"]):
        p = f"backbone.layers.{i}.mixer"
        s.vectors(f"backbone.layers.{i}", **{"norm.weight": hidden})
        if kind == "linear_attention":
            s.mamba2(p, hidden, c["mamba_num_heads"], c["mamba_head_dim"], c["n_groups"], c["ssm_state_size"],
                     c["conv_kernel"], (c["use_bias"], c["use_conv_bias"], c["use_bias"]))
        elif kind == "full_attention":
            s.attention(p, c)
        elif kind == "mlp":
            s.mlp(p, c, c["intermediate_size"], ("up_proj", "down_proj"), bias)
        else:
            width, ffn = c["moe_latent_size"] or hidden, c["moe_intermediate_size"]
            s.linear(f"{p}.gate", c["n_routed_experts"], hidden)
            s.vectors(f"{p}.gate", e_score_correction_bias=c["n_routed_experts"])
            s.mlp(f"{p}.shared_experts", c, c["moe_shared_expert_intermediate_size"], ("up_proj", "down_proj"), bias)
            for k in range(c["n_routed_experts"]):
                s.linear(f"{p}.experts.{k}.up_proj", ffn, width)
                s.linear(f"{p}.experts.{k}.down_proj", width, ffn)
            if c["moe_latent_size"]:
                s.linear(f"{p}.fc1_latent_proj", width, hidden, bias)
                s.linear(f"{p}.fc2_latent_proj", hidden, width, bias)
    return s


def shapes_qwen3_next(c):
    s = frame(c, "model", "embed_tokens", "norm")
    hidden, heads, key_heads = c["hidden_size"], c["linear_num_value_heads"], c["linear_num_key_heads"]
    keys, values = key_heads * c["linear_key_head_dim"], heads * c["linear_value_head_dim"]
    for i, kind in enumerate(c["layer_types"]):
        p = f"model.layers.{i}"
        s.vectors(p, **{"input_layernorm.weight": hidden, "post_attention_layernorm.weight": hidden})
        if kind == "full_attention":
            s.attention(f"{p}.self_attn", c, c["attention_bias"], norms="norm", gate=True)
        else:
            s.linear(f"{p}.linear_attn.in_proj_qkvz", 2 * keys + 2 * values, hidden)
            s.linear(f"{p}.linear_attn.in_proj_ba", 2 * heads, hidden)
            s.conv(f"{p}.linear_attn.conv1d", 2 * keys + values, c["linear_conv_kernel_dim"], False)
            s.linear(f"{p}.linear_attn.out_proj", hidden, values)
            s.vectors(f"{p}.linear_attn", A_log=heads, dt_bias=heads, **{"norm.weight": c["linear_value_head_dim"]})
        if i in c["mlp_only_layers"] or (i + 1) % c["decoder_sparse_step"]:
            s.mlp(f"{p}.mlp", c, c["intermediate_size"])
            continue
        s.linear(f"{p}.mlp.gate", c["num_experts"], hidden)
        s.linear(f"{p}.mlp.shared_expert_gate", 1, hidden)
        s.mlp(f"{p}.mlp.shared_expert", c, c["shared_expert_intermediate_size"])
        for k in range(c["num_experts"]):
            s.mlp(f"{p}.mlp.experts.{k}", c, c["moe_intermediate_size"])
    return s


def fill(shapes, seed):
    """Weights that let every part be seen; norms near one, A_log around zero, biases small."""
    rng = np.random.default_rng(seed)
    w = {}
    for name in sorted(shapes):
        x = rng.standard_normal(shapes[name])
        if name.endswith("D") or "norm" in name:
            x = 1 + 0.3 * x
        elif name.endswith(("A_log", "dt_bias")):
            x = 0.8 * x
        elif "conv" in name and name.endswith("weight") and len(shapes[name]) == 3:
            x = 0.5 * x
        elif name.endswith("bias"):
            x = 0.3 * x
        else:
            x = x * 1.2 / math.sqrt(shapes[name][-1])
        w[name] = x.astype(np.float32)
    return w


MODELS = {
    "lfm2_bias": dict(COMMON, **ROPE, model_type="lfm2", num_hidden_layers=3, norm_eps=1e-5, intermediate_size=40,
                      layer_types=["conv", "full_attention", "conv"], conv_bias=True, conv_L_cache=4, head_dim=None,
                      block_auto_adjust_ff_dim=True, block_ffn_dim_multiplier=1.3, block_multiple_of=8,
                      tie_word_embeddings=False),
    "mamba2_limits": dict({k: v for k, v in COMMON.items() if "heads" not in k}, model_type="mamba2",
                          num_hidden_layers=2, num_heads=8, head_dim=8, expand=2, n_groups=4, state_size=20,
                          conv_kernel=3, use_bias=True, use_conv_bias=False, hidden_act="silu",
                          layer_norm_epsilon=1e-5, time_step_limit=[0.3, 0.9], tie_word_embeddings=True),
    "falcon_h1_norm_gate": dict(COMMON, **ROPE, model_type="falcon_h1", num_hidden_layers=2, intermediate_size=40,
                                head_dim=12, rms_norm_eps=1e-5, hidden_act="silu", mamba_d_ssm=None, mamba_expand=2,
                                mamba_n_heads=4, mamba_d_head="auto", mamba_n_groups=2, mamba_d_state=12,
                                mamba_d_conv=4, mamba_conv_bias=True, mamba_proj_bias=True, projectors_bias=True,
                                mamba_rms_norm=True, mamba_norm_before_gate=True, attention_bias=True, mlp_bias=True,
                                time_step_limit=[0.4, {"__float__": "Infinity"}], ssm_in_multiplier=0.7,
                                ssm_out_multiplier=1.4, attention_in_multiplier=1.0, attention_out_multiplier=0.9,
                                key_multiplier=1.3, embedding_multiplier=1.0, lm_head_multiplier=0.8,
                                tie_word_embeddings=True),
    "falcon_h1_gate_norm": dict(COMMON, **ROPE, model_type="falcon_h1", num_hidden_layers=2, intermediate_size=40,
                                head_dim=8, rms_norm_eps=1e-5, hidden_act="silu", mamba_d_ssm=48, mamba_expand=2,
                                mamba_n_heads=6, mamba_d_head=8, mamba_n_groups=1, mamba_d_state=10, mamba_d_conv=2,
                                mamba_conv_bias=False, mamba_proj_bias=False, projectors_bias=False,
                                mamba_rms_norm=True, mamba_norm_before_gate=False, attention_bias=False,
                                mlp_bias=False, ssm_multipliers=[1.2, 0.8, 0.9, 1.1, 0.7], mlp_multipliers=[1.5, 0.6],
                                ssm_in_multiplier=1.0, ssm_out_multiplier=1.0, attention_in_multiplier=1.2,
                                attention_out_multiplier=1.0, key_multiplier=1.0, embedding_multiplier=2.0,
                                lm_head_multiplier=1.0, tie_word_embeddings=False),
    "jamba_bias": dict(COMMON, model_type="jamba", num_hidden_layers=4, intermediate_size=24, rms_norm_eps=1e-6,
                       hidden_act="silu", attn_layer_period=2, attn_layer_offset=0, expert_layer_period=3,
                       expert_layer_offset=1, num_experts=5, num_experts_per_tok=3, mamba_expand=2, mamba_d_state=5,
                       mamba_d_conv=3, mamba_dt_rank="auto", mamba_conv_bias=False, mamba_proj_bias=True,
                       tie_word_embeddings=True),
    "nemotron_h_latent": dict(COMMON, model_type="nemotron_h", intermediate_size=24, head_dim=12, layer_norm_epsilon=1e-5,
                              layers_block_type=["linear_attention", "moe", "full_attention", "moe", "mlp"],
                              mlp_hidden_act="relu2", mlp_bias=True, use_bias=True, use_conv_bias=False,
                              mamba_hidden_act="gelu_pytorch_tanh", mamba_num_heads=6, mamba_head_dim=10, n_groups=3,
                              ssm_state_size=7, conv_kernel=2, time_step_min=0.5, n_routed_experts=6,
                              num_experts_per_tok=3, moe_intermediate_size=20, n_group=3, topk_group=2,
                              moe_shared_expert_intermediate_size=28, moe_latent_size=36, norm_topk_prob=False,
                              routed_scaling_factor=2.5, tie_word_embeddings=False),
    "qwen3_next_bias": dict(COMMON, model_type="qwen3_next", num_hidden_layers=3, intermediate_size=24, head_dim=12,
                            rms_norm_eps=1e-6, hidden_act="silu", attention_bias=True,
                            rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
                            layer_types=["linear_attention", "full_attention", "linear_attention"], mlp_only_layers=[0],
                            linear_num_key_heads=3, linear_num_value_heads=3, linear_key_head_dim=10,
                            linear_value_head_dim=12, linear_conv_kernel_dim=3, decoder_sparse_step=1,
                            moe_intermediate_size=20, shared_expert_intermediate_size=28, num_experts=5,
                            num_experts_per_tok=2, norm_topk_prob=False, tie_word_embeddings=True),
}


def make(name, c, seed):
    folder = os.path.join(HERE, "states", name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(c, f, indent=1)
        f.write("\n")
    save_file(fill(globals()["shapes_" + c["model_type"]](c), seed), os.path.join(folder, "model.safetensors"))
    rng = np.random.default_rng(1000 + seed)
    prompts = rng.integers(3, c["vocab_size"], (3, 13)).tolist()
    cases = {"long": {"prompt": prompts[:1], "decode_steps": 6},
             "batch2": {"prompt": prompts[1:], "decode_steps": 3},
             "chunked": {"prompt": prompts[:1], "chunks": [4, 1, 8], "decode_steps": 3}}
    write(folder, states.Model(folder), cases, 24)


def main():
    for name in ("lfm2", "mamba2", "falcon_h1", "jamba", "nemotron_h", "qwen3_next"):
        if os.path.isdir(os.path.join(HERE, "tiny", name)):
            check(name, name != "nemotron_h")
    mend("jamba", ["chunked"])
    if os.path.isdir(os.path.join(HERE, "tiny", "nemotron_h")):
        mend("nemotron_h", ["short", "long", "batch2", "chunked"])
    for seed, (name, c) in enumerate(MODELS.items()):
        make(name, c, seed)


if __name__ == "__main__":
    main()

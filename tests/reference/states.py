"""states.py - decoders with states, in numpy's doubles, from their formulas: token by token, without a cache.

Independent of the castings and of the reference's code; make_states.py makes numbers with it. A model is a folder with
config.json (every key that matters is there) and model.safetensors. logits(tokens) gives [tokens, vocab] and what the
cache would hold after them.

Formulas: Gu and Dao 2023 (Mamba, algorithm 2), Dao and Gu 2024 (Mamba-2, section 7), Yang, Kautz and Hatamizadeh 2024
(gated delta rule, equation 10), and the classes of transformers 5.24.0 for names and for what surrounds them.
"""
import json
import math
import os

import numpy as np
from safetensors.numpy import load_file


def silu(x):
    return x / (1 + np.exp(-x))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.logaddexp(0, x)


ACTS = {
    "silu": silu,
    "relu2": lambda x: np.maximum(x, 0) ** 2,
    "gelu_pytorch_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}


def limits(pair):
    """time_step_limit, whose infinity is written as an object."""
    return [math.inf if isinstance(x, dict) else float(x) for x in (pair or [0.0, math.inf])]


class Model:
    def __init__(self, folder, rounded=None):
        with open(os.path.join(folder, "config.json")) as f:
            self.c = json.load(f)
        tensors = load_file(os.path.join(folder, "model.safetensors"))
        self.w = {k: (rounded(v) if rounded else v).astype(np.float64) for k, v in tensors.items()}
        self.eps = next(self.c[k] for k in ("rms_norm_eps", "norm_eps", "layer_norm_epsilon") if k in self.c)
        self.plus = 0.0
        self.build = getattr(self, "layer_" + self.c["model_type"])

    # ---- parts ----

    def norm(self, x, name, groups=1, plus=None):
        w = self.w[name + ".weight"] + (self.plus if plus is None else plus)
        runs = x.reshape(*x.shape[:-1], groups, -1)
        runs = runs / np.sqrt((runs**2).mean(-1, keepdims=True) + self.eps)
        return runs.reshape(x.shape) * (w if w.size == x.shape[-1] else np.tile(w, groups))

    def linear(self, x, name):
        y = x @ self.w[name + ".weight"].T
        return y + self.w[name + ".bias"] if name + ".bias" in self.w else y

    def rope(self, x):
        """x [n, heads, dim], in halves of its first part."""
        parameters = self.c["rope_parameters"]
        dim = int(x.shape[-1] * parameters.get("partial_rotary_factor", 1))
        freq = parameters["rope_theta"] ** (-np.arange(0, dim, 2) / dim)
        angle = np.arange(len(x))[:, None, None] * freq
        a, b = x[..., : dim // 2], x[..., dim // 2 : dim]
        turned = [a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle), x[..., dim:]]
        return np.concatenate(turned, -1)

    def attend(self, q, k, v):
        """[n, heads, dim], [n, kv_heads, dim] twice: causal, heads by groups."""
        n, heads, dim = q.shape
        k, v = (np.repeat(x, heads // x.shape[1], 1) for x in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) / math.sqrt(dim)
        scores[:, np.triu(np.ones((n, n), bool), 1)] = -np.inf
        p = np.exp(scores - scores.max(-1, keepdims=True))
        return np.einsum("hqk,khd->qhd", p / p.sum(-1, keepdims=True), v).reshape(n, -1)

    def heads(self, x, name):
        return self.linear(x, name).reshape(len(x), -1, self.head_dim())

    def head_dim(self):
        return self.c.get("head_dim") or self.c["hidden_size"] // self.c["num_attention_heads"]

    def keep(self, k, v):
        self.cache[f"{self.i}.keys"] = k.transpose(1, 0, 2)
        self.cache[f"{self.i}.values"] = v.transpose(1, 0, 2)

    def attention(self, x, prefix="self_attn", out="o_proj", rope=True, key_factor=1.0, norms=None, gate=False):
        q, k, v = (self.heads(x, f"{prefix}.{n}_proj") for n in "qkv")
        if gate:  # each head's query, then its gate
            q = q.reshape(len(x), -1, 2, self.head_dim())
            q, gates = q[:, :, 0], q[:, :, 1].reshape(len(x), -1)
        k = k * key_factor
        if norms:
            q, k = self.norm(q, f"{prefix}.q_{norms}"), self.norm(k, f"{prefix}.k_{norms}")
        if rope:
            q, k = self.rope(q), self.rope(k)
        self.keep(k, v)
        y = self.attend(q, k, v)
        return self.linear(y * sigmoid(gates) if gate else y, f"{prefix}.{out}")

    def conv(self, x, name, act=None):
        """x [n, channels]: each over its last columns."""
        w = self.w[name + ".weight"][:, 0]
        columns = w.shape[1]
        seen = np.concatenate([np.zeros((columns, x.shape[1])), x])
        self.cache[f"{self.i}.conv_state.0"] = seen[-columns:].T
        y = sum(seen[k + 1 : k + 1 + len(x)] * w[:, k] for k in range(columns))
        y = y + self.w.get(name + ".bias", 0)
        return ACTS[act](y) if act else y

    def mlp(self, x, prefix, gate="gate_proj", up="up_proj", down="down_proj", act="silu", factors=(1.0, 1.0)):
        y = ACTS[act](self.linear(x, f"{prefix}.{gate}") * factors[0]) * self.linear(x, f"{prefix}.{up}")
        return self.linear(y, f"{prefix}.{down}") * factors[1]

    def plain_mlp(self, x, prefix, act):
        return self.linear(ACTS[act](self.linear(x, f"{prefix}.up_proj")), f"{prefix}.down_proj")

    def experts(self, x, chosen, weights, expert):
        """chosen, weights [n, top_k]; expert(x, i): one expert's MLP."""
        y = np.zeros_like(x)
        for t in range(len(x)):
            for i, weight in zip(chosen[t], weights[t]):
                y[t] += weight * expert(x[t : t + 1], i)[0]
        return y

    def softmax_route(self, x, name, top_k, normalise):
        scores = self.linear(x, name)
        p = np.exp(scores - scores.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        chosen = np.argsort(-p, -1, kind="stable")[:, :top_k]
        weights = np.take_along_axis(p, chosen, -1)
        return chosen, weights / weights.sum(-1, keepdims=True) if normalise else weights

    # ---- states ----

    def mamba2(self, x, prefix, heads, dim, groups, size, act, dt_limits, norm, factors=(1.0,) * 5):
        """norm: "gate_norm", "norm_gate" or "gate"."""
        inner, shared = heads * dim, groups * size
        widths = np.cumsum([inner, inner, shared, shared, heads])
        p = self.linear(x, f"{prefix}.in_proj")
        p = p * np.repeat(factors, np.diff(widths, prepend=0))
        gate, dt = p[:, :inner], p[:, widths[3] :]
        mixed = self.conv(p[:, inner : widths[3]], f"{prefix}.conv1d", act)
        u = mixed[:, :inner].reshape(-1, heads, dim)
        B, C = (m.reshape(-1, groups, size) for m in np.split(mixed[:, inner:], 2, -1))
        A = -np.exp(self.w[f"{prefix}.A_log"])
        D = self.w[f"{prefix}.D"]
        dt = np.clip(softplus(dt + self.w[f"{prefix}.dt_bias"]), *dt_limits)
        of = np.arange(heads) // (heads // groups)
        h = np.zeros((heads, dim, size))
        y = np.zeros_like(u)
        for t in range(len(x)):
            h = np.exp(dt[t] * A)[:, None, None] * h + np.einsum("h,hp,hn->hpn", dt[t], u[t], B[t, of])
            y[t] = np.einsum("hpn,hn->hp", h, C[t, of]) + D[:, None] * u[t]
        self.cache[f"{self.i}.recurrent_state.0"] = h
        y = y.reshape(len(x), inner)
        if norm == "norm_gate":
            y = self.norm(y, f"{prefix}.norm", groups) * silu(gate)
        else:
            y = y * silu(gate)
            y = self.norm(y, f"{prefix}.norm", groups) if norm == "gate_norm" else y
        return self.linear(y, f"{prefix}.out_proj")

    def mamba(self, x, prefix, rank, size, act):
        u, gate = np.split(self.linear(x, f"{prefix}.in_proj"), 2, -1)
        u = self.conv(u, f"{prefix}.conv1d", act)
        low = self.linear(u, f"{prefix}.x_proj")
        dt, B, C = low[:, :rank], low[:, rank : rank + size], low[:, rank + size :]
        dt, B, C = (self.norm(v, f"{prefix}.{n}_layernorm") for v, n in ((dt, "dt"), (B, "b"), (C, "c")))
        dt = softplus(self.linear(dt, f"{prefix}.dt_proj"))
        A = -np.exp(self.w[f"{prefix}.A_log"])
        h = np.zeros_like(A)
        y = np.zeros_like(u)
        for t in range(len(x)):
            h = np.exp(dt[t][:, None] * A) * h + np.outer(dt[t] * u[t], B[t])
            y[t] = h @ C[t] + self.w[f"{prefix}.D"] * u[t]
        self.cache[f"{self.i}.recurrent_state.0"] = h
        return self.linear(y * silu(gate), f"{prefix}.out_proj")

    def delta(self, x, prefix):
        c = self.c
        key_heads, heads = c["linear_num_key_heads"], c["linear_num_value_heads"]
        dk, dv, share = c["linear_key_head_dim"], c["linear_value_head_dim"], heads // key_heads
        p = self.linear(x, f"{prefix}.in_proj_qkvz").reshape(len(x), key_heads, -1)
        q, k, v, z = np.split(p, np.cumsum([dk, dk, share * dv]), -1)
        beta, a = np.split(self.linear(x, f"{prefix}.in_proj_ba").reshape(len(x), key_heads, -1), 2, -1)
        flat = np.concatenate([m.reshape(len(x), -1) for m in (q, k, v)], -1)
        flat = self.conv(flat, f"{prefix}.conv1d", c["hidden_act"])
        q, k, v = np.split(flat, np.cumsum([key_heads * dk] * 2), -1)
        q, k = (m.reshape(len(x), key_heads, dk) for m in (q, k))
        q, k = (m / np.sqrt((m**2).sum(-1, keepdims=True) + 1e-6) for m in (q, k))
        q, k = (np.repeat(m, share, 1) for m in (q / math.sqrt(dk), k))
        v, z = (m.reshape(len(x), heads, dv) for m in (v, z))
        beta = sigmoid(beta.reshape(len(x), heads))
        decay = np.exp(-np.exp(self.w[f"{prefix}.A_log"]) * softplus(a.reshape(len(x), heads) + self.w[f"{prefix}.dt_bias"]))
        S = np.zeros((heads, dk, dv))
        y = np.zeros_like(v)
        for t in range(len(x)):
            S = decay[t][:, None, None] * S
            error = v[t] - np.einsum("hkv,hk->hv", S, k[t])
            S = S + np.einsum("h,hk,hv->hkv", beta[t], k[t], error)
            y[t] = np.einsum("hkv,hk->hv", S, q[t])
        self.cache[f"{self.i}.recurrent_state.0"] = S
        y = self.norm(y, f"{prefix}.norm", plus=0) * silu(z)
        return self.linear(y.reshape(len(x), -1), f"{prefix}.out_proj")

    # ---- families: one layer each ----

    def layer_lfm2(self, x, p):
        if self.c["layer_types"][self.i] == "conv":
            y = self.norm(x, p + "operator_norm")
            B, C, u = np.split(self.linear(y, p + "conv.in_proj"), 3, -1)
            x = x + self.linear(C * self.conv(B * u, p + "conv.conv"), p + "conv.out_proj")
        else:
            y = self.norm(x, p + "operator_norm")
            x = x + self.attention(y, p + "self_attn", out="out_proj", norms="layernorm")
        return x + self.mlp(self.norm(x, p + "ffn_norm"), p + "feed_forward", "w1", "w3", "w2")

    def layer_mamba2(self, x, p):
        c = self.c
        return x + self.mamba2(self.norm(x, p + "norm"), p + "mixer", c["num_heads"], c["head_dim"], c["n_groups"],
                               c["state_size"], c["hidden_act"], limits(c.get("time_step_limit")), "gate_norm")

    def layer_falcon_h1(self, x, p):
        c = self.c
        norm = "gate" if not c["mamba_rms_norm"] else "norm_gate" if c["mamba_norm_before_gate"] else "gate_norm"
        inner = c["mamba_d_ssm"] or c["mamba_expand"] * c["hidden_size"]
        y = self.norm(x, p + "input_layernorm")
        m = self.mamba2(y * c["ssm_in_multiplier"], p + "mamba", c["mamba_n_heads"], inner // c["mamba_n_heads"],
                        c["mamba_n_groups"], c["mamba_d_state"], c["hidden_act"], limits(c.get("time_step_limit")), norm,
                        c.get("ssm_multipliers") or (1.0,) * 5)
        a = self.attention(y * c["attention_in_multiplier"], p + "self_attn", key_factor=c["key_multiplier"])
        x = x + m * c["ssm_out_multiplier"] + a * c["attention_out_multiplier"]
        return x + self.mlp(self.norm(x, p + "pre_ff_layernorm"), p + "feed_forward", act=c["hidden_act"],
                            factors=c.get("mlp_multipliers") or (1.0, 1.0))

    def layer_jamba(self, x, p):
        c = self.c
        y = self.norm(x, p + "input_layernorm")
        if self.i % c["attn_layer_period"] == c["attn_layer_offset"]:
            x = x + self.attention(y, p + "self_attn", rope=False)
        else:
            rank = c["mamba_dt_rank"] if c["mamba_dt_rank"] != "auto" else math.ceil(c["hidden_size"] / 16)
            x = x + self.mamba(y, p + "mamba", rank, c["mamba_d_state"], c["hidden_act"])
        y = self.norm(x, p + "pre_ff_layernorm")
        p += "feed_forward"
        if self.i % c["expert_layer_period"] != c["expert_layer_offset"] or c["num_experts"] < 2:
            return x + self.mlp(y, p)
        chosen, weights = self.softmax_route(y, p + ".router", c["num_experts_per_tok"], False)
        return x + self.experts(y, chosen, weights, lambda v, i: self.mlp(v, f"{p}.experts.{i}"))

    def layer_nemotron_h(self, x, p):
        c = self.c
        kind = c["layers_block_type"][self.i]
        y = self.norm(x, p + "norm")
        p += "mixer"
        if kind in ("linear_attention", "mamba"):
            limit = (c["time_step_min"], math.inf)  # in prefill and in decode: what the model was trained with
            return x + self.mamba2(y, p, c["mamba_num_heads"], c["mamba_head_dim"], c["n_groups"], c["ssm_state_size"],
                                   c["mamba_hidden_act"], limit, "gate_norm")
        if kind in ("full_attention", "attention"):
            return x + self.attention(y, p, rope=False)
        if kind == "mlp":
            return x + self.plain_mlp(y, p, c["mlp_hidden_act"])
        scores = sigmoid(self.linear(y, p + ".gate"))
        choice = scores + self.w[p + ".gate.e_score_correction_bias"]
        groups = choice.reshape(len(y), c["n_group"], -1)
        best = np.sort(groups, -1)[..., -2:].sum(-1)
        of_group = np.argsort(-best, -1, kind="stable")[:, : c["topk_group"]]
        open_groups = np.zeros((len(y), c["n_group"]), bool)
        np.put_along_axis(open_groups, of_group, True, -1)
        choice = np.where(np.repeat(open_groups, groups.shape[-1], -1), choice, -np.inf)
        chosen = np.argsort(-choice, -1, kind="stable")[:, : c["num_experts_per_tok"]]
        weights = np.take_along_axis(scores, chosen, -1)
        if c["norm_topk_prob"]:
            weights = weights / (weights.sum(-1, keepdims=True) + 1e-20)
        u = self.linear(y, p + ".fc1_latent_proj") if c.get("moe_latent_size") else y
        u = self.experts(u, chosen, weights * c["routed_scaling_factor"],
                         lambda v, i: self.plain_mlp(v, f"{p}.experts.{i}", c["mlp_hidden_act"]))
        u = self.linear(u, p + ".fc2_latent_proj") if c.get("moe_latent_size") else u
        return x + u + self.plain_mlp(y, p + ".shared_experts", c["mlp_hidden_act"])

    def layer_qwen3_next(self, x, p):
        c = self.c
        y = self.norm(x, p + "input_layernorm")
        if c["layer_types"][self.i] == "linear_attention":
            x = x + self.delta(y, p + "linear_attn")
        else:
            x = x + self.attention(y, p + "self_attn", norms="norm", gate=True)
        y = self.norm(x, p + "post_attention_layernorm")
        p += "mlp"
        if self.i in c["mlp_only_layers"] or (self.i + 1) % c["decoder_sparse_step"]:
            return x + self.mlp(y, p)
        chosen, weights = self.softmax_route(y, p + ".gate", c["num_experts_per_tok"], c["norm_topk_prob"])
        routed = self.experts(y, chosen, weights, lambda v, i: self.mlp(v, f"{p}.experts.{i}"))
        return x + routed + sigmoid(self.linear(y, p + ".shared_expert_gate")) * self.mlp(y, p + ".shared_expert")

    # ---- all of it ----

    def logits(self, tokens):
        c, kind = self.c, self.c["model_type"]
        backbone = kind in ("mamba2", "nemotron_h")
        root = "backbone." if backbone else "model."
        last = {"lfm2": "embedding_norm", "falcon_h1": "final_layernorm", "jamba": "final_layernorm",
                "qwen3_next": "norm"}.get(kind, "norm_f")
        self.plus = 1.0 if kind == "qwen3_next" else 0.0
        self.cache = {}
        table = self.w[root + ("embeddings" if backbone else "embed_tokens") + ".weight"]
        x = table[np.asarray(tokens)] * c.get("embedding_multiplier", 1.0)
        layers = c["num_hidden_layers"] if kind != "nemotron_h" else len(c["layers_block_type"])
        for self.i in range(layers):
            x = self.build(x, f"{root}layers.{self.i}.")
        x = self.norm(x, root + last)
        head = self.w.get("lm_head.weight", table)
        return x @ head.T * c.get("lm_head_multiplier", 1.0), self.cache

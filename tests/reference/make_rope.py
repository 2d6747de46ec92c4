"""Rotary frequencies for tests/check_rope.c: python3 make_rope.py > rope/rope.json

Written from the formulas of transformers 5.24.0, modeling_rope_utils.py, and the papers (YaRN, Peng et al. 2023,
section 3.2; LongRoPE, Ding et al. 2024), in numpy: float32 where the reference has tensors, Python's numbers where it
has those. numpy 2.4.6. No seed, no network; two runs give the same bytes.
"""
import json
import math
import sys

import numpy as np

f32 = np.float32


def powers(theta, width):
    return f32(theta) ** (np.arange(0, width, 2, dtype=f32) / f32(width))


def default(theta, width, factor=1.0):
    return f32(1) / powers(theta, width) / f32(factor)


def llama3(theta, width, factor, low, high, original):
    freq = default(theta, width)
    wavelen = f32(2 * math.pi) / freq
    smooth = (f32(original) / wavelen - f32(low)) / f32(high - low)
    blend = (1 - smooth) * freq / f32(factor) + smooth * freq
    out = np.where(wavelen > f32(original / low), freq / f32(factor), freq)
    return np.where((wavelen >= f32(original / high)) & (wavelen <= f32(original / low)), blend, out)


def mscale(factor, m=1.0):
    return 0.1 * m * math.log(factor) + 1 if factor > 1 else 1.0


def yarn(theta, width, factor, original, fast=32.0, slow=1.0, truncate=True):
    ends = [width * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta)) for turns in (fast, slow)]
    if truncate:
        ends = [math.floor(ends[0]), math.ceil(ends[1])]
    low, high = max(ends[0], 0), min(ends[1], width - 1)
    ramp = np.clip((np.arange(width // 2, dtype=f32) - f32(low)) / f32(high - low), 0, 1)
    kept = 1 - ramp
    wave = powers(theta, width)
    return f32(1) / (f32(factor) * wave) * (1 - kept) + f32(1) / wave * kept


def longrope(theta, width, factors):
    return f32(1) / (np.array(factors, f32) * powers(theta, width))


def proportional(theta, head_dim, part):
    turning = int(part * head_dim // 2)
    freq = default(theta, head_dim)
    freq[turning:] = 0
    return freq


def dynamic(theta, width, factor, longest, length):
    grown = (factor * max(length, longest) / longest) - (factor - 1)
    return default(theta * grown ** (width / (width - 2)), width)


cases = []


def case(name, model_type, head_dim, keys, freq, attention=1.0, sliding=None, at=None, longest=None):
    """keys: of the config; at: position -> frequencies there; sliding: those of sliding layers."""
    config = {"model_type": model_type, "vocab_size": 99, "hidden_size": 4 * head_dim, "intermediate_size": 96,
              "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": head_dim}
    if longest:
        config["max_position_embeddings"] = longest
    numbers = lambda a: [float(x) for x in a]
    entry = {"name": name, "config": {**config, **keys}, "head_dim": head_dim, "inv_freq": numbers(freq),
             "attention_factor": attention}
    if sliding is not None:
        entry["sliding"] = numbers(sliding)
    if at:
        entry["at"] = [{"pos": pos, "inv_freq": numbers(a)} for pos, a in at.items()]
    cases.append(entry)


case("default, 96 wide", "llama", 96, {"rope_theta": 250000.0}, default(250000, 96))
case("a theta that float32 rounds", "starcoder2", 128, {"rope_theta": 999999.4420358813}, default(999999.4420358813, 128))
case("linear", "llama", 64, {"rope_scaling": {"type": "linear", "factor": 2.5}}, default(10000, 64, 2.5))
case("llama3.1", "llama", 128, {"rope_theta": 500000.0, "rope_scaling": {
    "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
    "rope_type": "llama3"}}, llama3(500000, 128, 8, 1, 4, 8192), longest=131072)
case("qwen2.5 yarn", "qwen2", 128, {"rope_theta": 1000000.0, "rope_scaling": {
    "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}},
    yarn(1000000, 128, 4, 32768), mscale(4), longest=32768)
deepseek = {"beta_fast": 32, "beta_slow": 1, "factor": 40, "original_max_position_embeddings": 4096, "type": "yarn"}
case("deepseek_v3 yarn", "llama", 64, {"rope_scaling": {**deepseek, "mscale": 1.0, "mscale_all_dim": 1.0}},
     yarn(10000, 64, 40, 4096), 1.0, longest=163840)
case("deepseek_v2 yarn", "llama", 64, {"rope_scaling": {**deepseek, "mscale": 1.0, "mscale_all_dim": 0.707}},
     yarn(10000, 64, 40, 4096), mscale(40) / mscale(40, 0.707), longest=163840)
case("gpt_oss yarn, ends not whole", "llama", 64, {"rope_theta": 150000, "rope_scaling": {
    "beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "original_max_position_embeddings": 4096,
    "rope_type": "yarn", "truncate": False}},
    yarn(150000, 64, 32, 4096, truncate=False), mscale(32), longest=131072)
case("olmo3: yarn on full layers only", "olmo3", 128, {"rope_theta": 500000, "rope_scaling": {
    "attention_factor": 1.2079441541679836, "beta_fast": 32, "beta_slow": 1, "factor": 8.0,
    "original_max_position_embeddings": 8192, "rope_type": "yarn"}},
    yarn(500000, 128, 8, 8192), 1.2079441541679836, sliding=default(500000, 128), longest=65536)
short = [1 + 0.05 * i for i in range(48)]
long = [1 + 0.75 * i for i in range(48)]
case("phi-4-mini: longrope on 0.75 of a head", "phi3", 128, {
    "original_max_position_embeddings": 4096, "partial_rotary_factor": 0.75,
    "rope_scaling": {"type": "longrope", "short_factor": short, "long_factor": long}},
    longrope(10000, 96, short), math.sqrt(1 + math.log(32) / math.log(4096)), longest=131072,
    at={4095: longrope(10000, 96, short), 4096: longrope(10000, 96, long), 99999: longrope(10000, 96, long)})
case("gemma3, older keys", "gemma3_text", 256, {"rope_scaling": {"factor": 8.0, "rope_type": "linear"}},
     default(1000000, 256, 8), sliding=default(10000, 256))
case("gemma3, both thetas beside", "gemma3_text", 256, {
    "rope_theta": 500000.0, "rope_local_base_freq": 20000.0,
    "rope_parameters": {"full_attention": {"rope_type": "default"}, "sliding_attention": {"rope_type": "default"}}},
    default(500000, 256), sliding=default(20000, 256))
case("proportional, as gemma4's full layers", "phi", 64, {"rope_parameters": {
    "partial_rotary_factor": 0.25, "rope_theta": 1000000.0, "rope_type": "proportional"}},
    proportional(1000000, 64, 0.25))
case("phi: half a head by default", "phi", 64, {}, default(10000, 32))
case("gpt_neox: older keys", "gpt_neox", 96, {"rotary_pct": 0.25, "rotary_emb_base": 20000}, default(20000, 24))
case("dynamic", "llama", 64, {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, default(10000, 64), longest=128,
     at={p: dynamic(10000, 64, 2.0, 128, p + 1) for p in (0, 127, 128, 200, 1023)})

json.dump({"transformers": "5.24.0", "numpy": np.__version__, "cases": cases}, sys.stdout, indent=0)
print()

"""Writes tiny/gpt_oss_mxfp4: a random gpt_oss whose experts are MXFP4, as the published ones are, and
what transformers makes of it (weights unpacked by its own integrations/mxfp4.py, logits without a
cache). Needs torch and transformers. Usage: make_mxfp4.py FOLDER"""
import json
import sys

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.integrations.mxfp4 import _convert_moe_packed_tensors

folder = sys.argv[1]
config = json.load(open("tests/reference/tiny/gpt_oss/config.json"))
config.update(intermediate_size=32, num_hidden_layers=2, layer_types=config["layer_types"][:2])
torch.manual_seed(20261203)
model = AutoModelForCausalLM.from_config(
    AutoConfig.for_model(**config), attn_implementation="eager").float().eval()
tensors = {}
with torch.no_grad():
    for name, p in model.named_parameters():
        if name.endswith(("gate_up_proj", "down_proj")) and p.dim() == 3:
            experts, inner, outer = p.shape
            blocks = torch.randint(0, 256, (experts, outer, inner // 32, 16), dtype=torch.uint8)
            scales = torch.randint(121, 126, (experts, outer, inner // 32), dtype=torch.uint8)
            p.copy_(_convert_moe_packed_tensors(blocks.clone(), scales.clone(), dtype=torch.float32))
            tensors[name + "_blocks"], tensors[name + "_scales"] = blocks, scales
        else:
            spread = 0.3 if p.dim() == 1 or "embed" in name or "lm_head" in name else 0.15
            p.copy_(torch.randn(p.shape) * spread + ("norm" in name))
            tensors[name] = p.detach().clone()

made = {}
cases = {}
prompts = {"short": (1, 6, 8), "long": (1, 19, 24), "batch2": (2, 11, 4), "chunked": (1, 19, 4)}
for case, (rows, length, steps) in prompts.items():
    generator = torch.Generator().manual_seed(rows * length)  # chunked is long again
    ids = torch.randint(3, config["vocab_size"], (rows, length), generator=generator)
    prompt, tokens = ids.tolist(), []
    with torch.no_grad():
        for _ in range(steps + 1):
            logits = model(ids, use_cache=False).logits
            tokens.append(logits[:, -1].argmax(-1))
            ids = torch.cat([ids, tokens[-1][:, None]], 1)
    made[case + ".prefill_logits"] = logits[:, :length].contiguous()
    made[case + ".decode_logits"] = logits[:, length:length + steps].contiguous()
    cases[case] = {"prompt": prompt, "decode_steps": steps,
                   "tokens": torch.stack(tokens, 1).tolist()}
cases["chunked"].update(chunks=[5, 7, 7], reference_supports_it=True)
config["quantization_config"] = {"quant_method": "mxfp4",
                                 "modules_to_not_convert": ["model.layers.*.self_attn"]}
json.dump(config, open(folder + "/config.json", "w"), indent=1)
json.dump({"max_cache_len": 44, "cases": cases}, open(folder + "/expected.json", "w"))
save_file(made, folder + "/expected.safetensors")
save_file(tensors, folder + "/model.safetensors")

#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Architectures of torchvision and transformers with random weights, small, exported by both of PyTorch's exporters at
the newest set that each writes; Kiln's results beside ONNX Runtime's. KILN_TEST_PYTHON names a Python with torch,
torchvision, transformers, onnxscript and onnxruntime; skipped where there is none.

usage: check_architectures.py KILN DEVICE [--folder KEPT] [--exporter script|dynamo] [--table] [NAME ..]

A name "few" stands for some that differ in kind. What was exported to KEPT is taken from there. An exporter that fails
is told, and is no failure of Kiln's.
"""
import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile

PYTHON = os.environ.get("KILN_TEST_PYTHON")
if PYTHON and os.environ.get("KILN_TEST_PYTHON_USED") is None:
    os.execve(PYTHON, [PYTHON, "-B", "-W", "ignore"] + sys.argv, dict(os.environ, KILN_TEST_PYTHON_USED="1"))

try:
    import numpy as np
    import onnx
    import onnxruntime
    import diffusion
    import torch
    import torchvision
    import transformers
    importlib.import_module("onnxscript")
except ImportError as missing:
    print(f"SKIP {missing}: pip install torch torchvision transformers onnxscript onnxruntime")
    print("kiln-test: 0 passed, 0 failed, 1 skipped")
    sys.exit(0)

EXPORTERS = {"script": (False, torch.onnx._constants.ONNX_TORCHSCRIPT_EXPORTER_MAX_OPSET),
             "dynamo": (True, torch.onnx._constants.ONNX_MAX_OPSET)}
BOUND = 1e-5  # of the largest number of an output
FEW = ["resnet18", "mobilenet_v3_small", "vit_b_16", "bert", "gpt2_cache", "llama_cache"]
VOCABULARY, LENGTH, PAST = 64, 12, 5


class Flat(torch.nn.Module):
    """A model of transformers whose results are a list of tensors."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs):
        made = self.model(**dict(zip(self.names, inputs)), return_dict=True)
        return made.logits if "logits" in made else made[0]


class WithCache(torch.nn.Module):
    """A decoder's step: ids, mask and places, then keys and values of each layer; logits and the longer ones."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, mask, places, *past):
        cache = transformers.cache_utils.DynamicCache()
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        made = self.model(input_ids=ids, attention_mask=mask, position_ids=places, past_key_values=cache,
                          use_cache=True)
        kept = made.past_key_values
        return (made.logits, *(t for layer in kept.layers for t in (layer.keys, layer.values)))


class Recurrent(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.layers = kind(16, 24, num_layers=2, bidirectional=True, batch_first=True)
        self.head = torch.nn.Linear(48, 10)

    def forward(self, x):
        return self.head(self.layers(x)[0])


class First(torch.nn.Module):
    """The tensors of a model that gives a dictionary."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        made = self.model(x)
        return tuple(made.values()) if isinstance(made, dict) else made


class Chosen(torch.nn.Module):
    """Boxes of three classes that do not overlap, the likeliest first."""

    def forward(self, boxes, scores):
        kept = torchvision.ops.batched_nms(boxes, scores, torch.arange(40) % 3, 0.5)[:20]
        return boxes[kept], scores[kept]


class Detected(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        made = self.model(pixel_values=x)
        return made.logits, made.pred_boxes


def picture(size=64, batch=1):
    return torch.randn(batch, 3, size, size)


def vision(name, size=64, **more):
    def make():
        model = getattr(torchvision.models, name)(weights=None, **more)
        return model, (picture(size),)
    return make


def segmentation(name):
    def make():
        model = getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None, num_classes=5)
        return First(model), (picture(64),)
    return make


def transformer(size):
    layers = {"image_size": size, "num_layers": 2, "num_heads": 4, "hidden_dim": 64, "mlp_dim": 128,
              "num_classes": 10, "patch_size": 16}
    return lambda: (torchvision.models.VisionTransformer(**layers), (picture(size),))


def attended_grids():
    sizes = {"input_size": (64, 64), "stem_channels": 16, "partition_size": 2, "block_channels": [16, 32],
             "block_layers": [1, 1], "head_dim": 8, "stochastic_depth_prob": 0.0, "num_classes": 10}
    return torchvision.models.MaxVit(**sizes), (picture(64),)


SMALL = {"vocab_size": VOCABULARY, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 128, "max_position_embeddings": 64}


def configured(config, **more):
    made = getattr(transformers, config + "Config")(**more)
    made._attn_implementation = "eager"
    return made


def ids(length=LENGTH):
    return torch.randint(3, VOCABULARY, (1, length))


def encoder(config, model, **more):
    def make():
        whole = getattr(transformers, model)(configured(config, **(SMALL | more)))
        return Flat(whole, ["input_ids", "attention_mask"]), (ids(), torch.ones(1, LENGTH, dtype=torch.int64))
    return make


def decoder(config, model, key_heads=4, **more):
    """A step of one token with PAST of them before."""
    def make():
        sizes = more if "n_embd" in more else SMALL | {"num_key_value_heads": key_heads} | more
        whole = getattr(transformers, model)(configured(config, **sizes))
        size = getattr(whole.config, "head_dim", None) or 16
        past = [torch.randn(1, key_heads, PAST, size) for _ in range(4)]
        return WithCache(whole), (ids(1), torch.ones(1, PAST + 1, dtype=torch.int64), torch.tensor([[PAST]]), *past)
    return make


def both_sides(config, model, **more):
    """An encoder and a decoder, on a text for each."""
    def make():
        whole = getattr(transformers, model)(configured(config, **more))
        return Flat(whole, ["input_ids", "decoder_input_ids"]), (ids(), ids(7))
    return make


def seen(config, model, size=64, **more):
    def make():
        whole = getattr(transformers, model)(configured(config, **more))
        return Flat(whole, ["pixel_values"]), (picture(size),)
    return make


def chosen():
    corners = torch.rand(40, 2) * 50
    return Chosen(), (torch.cat([corners, corners + 10 + torch.rand(40, 2) * 20], 1), torch.rand(40))


def detected():
    seen_by = transformers.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic",
                                        out_features=["stage2"])
    sizes = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4,
             "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "num_queries": 6,
             "use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None,
             "backbone_config": seen_by}
    return Detected(transformers.DetrForObjectDetection(transformers.DetrConfig(**sizes))), (picture(64),)


def heard(config, model, **more):
    def make():
        whole = getattr(transformers, model)(configured(config, **more))
        return Flat(whole, ["input_values"]), (torch.randn(1, 2000),)
    return make


def spoken():
    sizes = {"vocab_size": VOCABULARY, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2,
             "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 128,
             "decoder_ffn_dim": 128, "num_mel_bins": 20, "max_source_positions": 32, "max_target_positions": 32,
             "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    whole = transformers.WhisperForConditionalGeneration(configured("Whisper", **sizes))
    return Flat(whole, ["input_features", "decoder_input_ids"]), (torch.randn(1, 20, 64), ids(7))


def sequence(layer):
    return lambda: (Recurrent(layer), (torch.randn(2, 9, 16),))


HALF = {"d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "vocab_size": VOCABULARY,
        "max_position_embeddings": 64}
GPT = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": VOCABULARY}

ARCHITECTURES = {
    "alexnet": vision("alexnet", 224),
    "vgg11_bn": vision("vgg11_bn", 224),
    "resnet18": vision("resnet18"),
    "resnext50": vision("resnext50_32x4d"),
    "densenet121": vision("densenet121"),
    "googlenet": vision("googlenet", aux_logits=False, init_weights=False),
    "inception_v3": vision("inception_v3", 96, aux_logits=False, init_weights=False),
    "squeezenet1_1": vision("squeezenet1_1"),
    "mobilenet_v2": vision("mobilenet_v2"),
    "mobilenet_v3_small": vision("mobilenet_v3_small"),
    "mnasnet0_5": vision("mnasnet0_5"),
    "shufflenet_v2": vision("shufflenet_v2_x0_5"),
    "efficientnet_b0": vision("efficientnet_b0"),
    "regnet_y_400mf": vision("regnet_y_400mf"),
    "convnext_tiny": vision("convnext_tiny"),
    "vit_b_16": transformer(64),
    "swin_t": vision("swin_t"),
    "swin_v2_t": vision("swin_v2_t"),
    "maxvit": attended_grids,
    "deeplabv3_mobilenet": segmentation("deeplabv3_mobilenet_v3_large"),
    "lraspp_mobilenet": segmentation("lraspp_mobilenet_v3_large"),
    "fcn_resnet50": segmentation("fcn_resnet50"),
    "r3d_18": lambda: (torchvision.models.video.r3d_18(weights=None), (torch.randn(1, 3, 4, 32, 32),)),
    "lstm": sequence(torch.nn.LSTM),
    "gru": sequence(torch.nn.GRU),
    "bert": encoder("Bert", "BertModel"),
    "roberta": encoder("Roberta", "RobertaModel"),
    "distilbert": encoder("DistilBert", "DistilBertModel", dim=64, n_layers=2, n_heads=4, hidden_dim=128),
    "albert": encoder("Albert", "AlbertModel", embedding_size=32),
    "electra": encoder("Electra", "ElectraModel", embedding_size=32),
    "deberta_v2": encoder("DebertaV2", "DebertaV2Model", relative_attention=True, pos_att_type=["p2c", "c2p"],
                          position_buckets=16),
    "modernbert": encoder("ModernBert", "ModernBertModel", pad_token_id=0),
    "t5": both_sides("T5", "T5ForConditionalGeneration", vocab_size=VOCABULARY, d_model=64, d_kv=16, d_ff=128,
                     num_layers=2, num_heads=4, decoder_start_token_id=0),
    "bart": both_sides("Bart", "BartForConditionalGeneration", **HALF),
    "whisper": spoken,
    "wav2vec2": heard("Wav2Vec2", "Wav2Vec2Model", hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                      intermediate_size=128, conv_dim=[32, 32, 32], conv_stride=[5, 4, 4], conv_kernel=[10, 8, 4],
                      num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4),
    "beit": seen("Beit", "BeitModel", image_size=64, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                 intermediate_size=128, use_relative_position_bias=True),
    "segformer": seen("Segformer", "SegformerForSemanticSegmentation"),
    "dinov2": seen("Dinov2", "Dinov2Model", image_size=56, size=56, patch_size=14, hidden_size=64,
                   num_hidden_layers=2, num_attention_heads=4),
    "detr": detected,
    "boxes": chosen,
    "diffusion": diffusion.make,
    "mamba": encoder("Mamba", "MambaModel", state_size=8, use_cache=False),
    "gpt2_cache": decoder("GPT2", "GPT2LMHeadModel", **GPT),
    "llama_cache": decoder("Llama", "LlamaForCausalLM", 2),
    "qwen2_cache": decoder("Qwen2", "Qwen2ForCausalLM", 2),
    "qwen3_cache": decoder("Qwen3", "Qwen3ForCausalLM", 2, head_dim=16),
    "mistral_cache": decoder("Mistral", "MistralForCausalLM", 2),
    "gemma_cache": decoder("Gemma", "GemmaForCausalLM", 2, head_dim=16),
    "gemma2_cache": decoder("Gemma2", "Gemma2ForCausalLM", 2, head_dim=16),
    "phi_cache": decoder("Phi", "PhiForCausalLM", 4),
}


def calm(model):
    """Statistics of batches and weights that are not those of a model that never saw data."""
    for part in model.modules():
        if isinstance(part, (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)):
            part.running_var.uniform_(0.5, 1.5)
            part.running_mean.normal_(0, 0.1)
    for value in model.parameters():
        if not value.any():  # a head, or a position, that begins at nothing
            torch.nn.init.normal_(value, 0, 0.1)


def flat(made):
    return [made] if isinstance(made, torch.Tensor) else [t for t in made if isinstance(t, torch.Tensor)]


def export(name, exporter, folder):
    """Writes model.onnx, inputs, what ONNX Runtime gives, and facts.json."""
    torch.manual_seed(7)
    torch.set_num_threads(2)
    torch.backends.mha.set_fastpath_enabled(False)  # an operator that has no name in ONNX
    model, inputs = ARCHITECTURES[name]()
    model.eval()
    calm(model)
    dynamo, opset = EXPORTERS[exporter]
    path = os.path.join(folder, "model.onnx")
    with torch.no_grad():
        wanted = [t.numpy() for t in flat(model(*inputs))]
        names = [f"in_{i}" for i in range(len(inputs))]
        torch.onnx.export(model, inputs, path, dynamo=dynamo, opset_version=opset, input_names=names,
                          output_names=[f"out_{i}" for i in range(len(wanted))], verbose=False)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given = {i.name: inputs[names.index(i.name)].numpy() for i in session.get_inputs()}
    made = session.run(None, given)
    for key, value in given.items():
        np.save(os.path.join(folder, key + ".npy"), value)
    for i, value in enumerate(made):
        np.save(os.path.join(folder, f"expected_{i}.npy"), value)
    facts = {"inputs": list(given), "outputs": [o.name for o in session.get_outputs()],
             "opset": max(i.version for i in onnx.load(path, load_external_data=False).opset_import
                          if i.domain in ("", "ai.onnx")),
             "torch": max(distance(a, b) for a, b in zip(made, wanted))}
    with open(os.path.join(folder, "facts.json"), "w", encoding="utf-8") as file:
        json.dump(facts, file)


def distance(made, wanted):
    if made.shape != wanted.shape or made.dtype != wanted.dtype:
        return float("inf")
    if made.dtype.kind != "f":
        return float((made != wanted).any())
    largest = np.abs(wanted).max(initial=0)
    return float(np.abs(made - wanted).max(initial=0) / (largest or 1))


def compute(kiln, device, folder):
    """The largest error of Kiln's outputs; a text where it did not run."""
    with open(os.path.join(folder, "facts.json"), encoding="utf-8") as file:
        facts = json.load(file)
    command = [kiln, "run", os.path.join(folder, "model.onnx"), "--device", device, "--runs", "1"]
    for name in facts["inputs"]:
        command += ["--input", f"{name}={folder}/{name}.npy"]
    for i, name in enumerate(facts["outputs"]):
        command += ["--output", f"{name}={folder}/made_{i}.npy"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        return facts, (done.stderr.strip() or f"status {done.returncode}").splitlines()[-1]
    return facts, max(distance(np.load(f"{folder}/made_{i}.npy"), np.load(f"{folder}/expected_{i}.npy"))
                      for i in range(len(facts["outputs"])))


def exported(name, exporter, folder):
    """Whether the exporter wrote the model; tells why it did not."""
    if os.path.exists(os.path.join(folder, "facts.json")):
        return True
    os.makedirs(folder, exist_ok=True)
    try:
        done = subprocess.run([sys.executable, "-B", "-W", "ignore", __file__, "--export", name, exporter, folder],
                              capture_output=True, text=True, timeout=900, check=False)
        said = done.stderr
    except subprocess.TimeoutExpired:
        said = "takes more than 900 s"
    with open(os.path.join(folder, "export.log"), "w", encoding="utf-8") as file:
        file.write(said)
    if os.path.exists(os.path.join(folder, "facts.json")):
        return True
    print(f"not exported {name} {exporter}: {(said.strip().splitlines() or ['nothing said'])[-1][:160]}", flush=True)
    return False


def check(a, name, exporter, base):
    folder = os.path.join(base, f"{name}_{exporter}")
    if not exported(name, exporter, folder):
        return None
    facts, error = compute(a.kiln, a.device, folder)
    good = not isinstance(error, str) and error <= BOUND
    told = error if isinstance(error, str) else f"{error:.1e} of ONNX Runtime, which is {facts['torch']:.1e} of PyTorch"
    print(f"{'ok' if good else 'FAIL'} {name} {exporter}, set {facts['opset']}: {told}", flush=True)
    return facts["opset"], error, facts["torch"], good


def write_table(rows):
    print("\n| architecture | " + " | ".join(f"{e}, error" for e in EXPORTERS) + " |")
    print("|---|" + "---|" * len(EXPORTERS))
    for name in ARCHITECTURES:
        cells = [rows.get((name, exporter)) for exporter in EXPORTERS]
        told = ["not exported" if c is None else c[1] if isinstance(c[1], str) else f"{c[1]:.0e}" for c in cells]
        print(f"| {name} | " + " | ".join(told) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kiln")
    parser.add_argument("device")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--folder")
    parser.add_argument("--exporter", choices=EXPORTERS)
    parser.add_argument("--table", action="store_true")
    a = parser.parse_intermixed_args()
    names = FEW if a.names == ["few"] else a.names or list(ARCHITECTURES)
    with tempfile.TemporaryDirectory() as temporary:
        rows = {(name, exporter): check(a, name, exporter, a.folder or temporary)
                for name in names for exporter in ([a.exporter] if a.exporter else EXPORTERS)}
    done = [row for row in rows.values() if row is not None]
    failed = sum(not row[3] for row in done)
    if a.table:
        write_table(rows)
    print(f"torch {torch.__version__}, torchvision {torchvision.__version__}, transformers {transformers.__version__}, "
          f"ONNX Runtime {onnxruntime.__version__}")
    print(f"kiln-test: {len(done) - failed} passed, {failed} failed, {len(rows) - len(done)} skipped")
    return failed > 0


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1] == "--export":
        export(*sys.argv[2:])
    else:
        sys.exit(main())

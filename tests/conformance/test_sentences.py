"""MiniLM, a trained text encoder: which sentences mean the same, told by the om as by the original."""

import architectures
import numpy as np
import onnxruntime
import pytest
import real_files
import torch

from cannlab import atc, om
from cannlab.machine.executor import Model

SENTENCES = (
    "A man is eating food.",
    "Someone is having a meal.",
    "The compiler folds constants before it chooses kernels.",
    "It will rain in the mountains tomorrow.",
)
LENGTH = 16


class Encoder(torch.nn.Module):
    """The mean of the last layer over the words, of length 1."""

    def __init__(self, bert):
        super().__init__()
        self.bert = bert

    def forward(self, ids, mask):
        hidden = self.bert(input_ids=ids, attention_mask=mask).last_hidden_state
        weight = mask.unsqueeze(-1).to(hidden.dtype)
        return torch.nn.functional.normalize((hidden * weight).sum(1) / weight.sum(1), dim=1)


def encoder(transformers, weights):
    config = transformers.BertConfig(
        hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536, layer_norm_eps=1e-12
    )
    bert = transformers.BertModel(config, add_pooling_layer=False)
    bert.set_attn_implementation("eager")
    missing, _ = bert.load_state_dict(weights, strict=False)
    assert not missing
    return Encoder(bert.eval())


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("opset", [11, 13, 17])
def test_which_sentences_mean_the_same(opset, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    weights, words = real_files.SENTENCES.find(), real_files.TOKENS.find()
    transformers = architectures.load()
    safetensors = pytest.importorskip("safetensors.torch")
    tokens = pytest.importorskip("tokenizers").Tokenizer.from_file(str(words))
    tokens.enable_padding(length=LENGTH)
    read = tokens.encode_batch(list(SENTENCES))
    inputs = {"ids": torch.tensor([item.ids for item in read]), "mask": torch.tensor([i.attention_mask for i in read])}
    with architectures.quiet():
        model = encoder(transformers, safetensors.load_file(str(weights)))
        architectures.write(model, inputs, opset, tmp_path / "net.onnx")
    feeds = {name: tensor.numpy() for name, tensor in inputs.items()}
    session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, feeds)
    alike = wanted @ wanted.T
    assert alike[0, 1] > 0.5
    assert alike[0, 2:].max() < 0.2
    words = ["--model=net.onnx", "--framework=5", "--output=net"]
    for soc, mode, close in (
        ("Ascend910B1", "must_keep_origin_dtype", 1e-5),
        ("Ascend910B1", "force_fp16", 3e-3),
        ("Ascend310P3", "force_fp16", 3e-3),
    ):
        assert atc.main([*words, f"--soc_version={soc}", f"--precision_mode={mode}"]) == 0
        compiled = om.read("net.om", soc=soc)
        (found,) = Model(compiled).run([feeds[tensor.name] for tensor in compiled.inputs])[0]
        np.testing.assert_allclose(found, wanted, atol=close)
        np.testing.assert_allclose(found @ found.T, alike, atol=3e-3)

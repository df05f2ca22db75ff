"""A model named hf:… comes from the hub, any other name is a folder."""

import json

import pytest

from divulge import InputError

transformers = pytest.importorskip("transformers")


def load(name, **options):
    from divulge.targets import pretrained

    classes = transformers.AutoModelForCausalLM, transformers.AutoTokenizer
    return pretrained.load_pretrained(*classes, name, "float32", options.get("device", "cpu"))


def test_a_folder_that_is_not_there_is_said_to_be_missing(tmp_path):
    with pytest.raises(InputError, match="no such folder; hf:NAME is one on the hub"):
        load(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("config", "model_class"),
    [
        ({"architectures": ["GPT2LMHeadModel"]}, "CausalLM"),
        ({"architectures": ["BertForSequenceClassification"]}, "TextClassifier"),
        ({"model_type": "gpt2"}, "CausalLM"),
        ({"architectures": ["BertForSequenceClassification"], "model_type": "gpt2"}, "TextClassifier"),
        ({"architectures": ["T5Model"]}, None),
        ({"architectures": ["GPT2LMHeadModel", "BertForSequenceClassification"]}, None),
        ({"model_type": 3}, None),
        ({}, None),
    ],
)
def test_the_class_that_a_configuration_names_decides_and_without_one_its_type(config, model_class, tmp_path):
    from divulge.targets import folders

    (tmp_path / "config.json").write_text(json.dumps(config))
    if model_class is None:
        with pytest.raises(InputError, match="neither a causal language model nor a sequence classifier"):
            folders._target_class(tmp_path)
    else:
        assert folders._target_class(tmp_path).__name__ == model_class

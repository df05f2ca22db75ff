"""Networks of regressors: what they take, and how wide they are."""

import numpy as np
import pytest

from divulge import InputError
from divulge.regressors import bodies


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((5, 8, 9), (5, 1, 8, 9)),
        ((5, 1, 8, 9), (5, 1, 8, 9)),
        ((5, 3, 8, 9), (5, 3, 8, 9)),
        ((5, 8, 9, 1), (5, 1, 8, 9)),
        ((5, 8, 9, 3), (5, 3, 8, 9)),
        ((5, 3, 9, 3), (5, 3, 9, 3)),
        ((5, 1, 9, 1), (5, 1, 9, 1)),
        ((5, 4, 8, 9), (5, 4, 8, 9)),
        ((5, 2, 8, 2), (5, 2, 8, 2)),
    ],
)
def test_channels_of_one_or_three_are_moved_to_the_front_where_they_are_last(shape, expected):
    images = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    result = bodies._images(images, "SmallCNN")
    assert result.shape == expected
    assert result.dtype == np.float32
    np.testing.assert_array_equal(np.sort(result.ravel()), np.sort(images.ravel()))
    if len(shape) == 4 and shape != expected:
        np.testing.assert_array_equal(result[:, 0], images[..., 0])


@pytest.mark.parametrize("shape", [(5,), (5, 2), (5, 1, 2, 3, 4)])
def test_what_is_no_image_is_refused(shape):
    with pytest.raises(InputError, match="SmallCNN"):
        bodies._images(np.ones(shape), "SmallCNN")


@pytest.mark.parametrize("shape", [(6, 4), (6, 2, 3), (6, 1)])
def test_the_first_layer_is_as_wide_as_a_record(shape):
    import torch

    body = bodies.MLP((5, 7))
    prepared = body.prepare(np.ones(shape))
    width = int(np.prod(shape[1:]))
    assert prepared.shape == (6, width)
    network = body.build(prepared)
    linear = [part for part in network if hasattr(part, "in_features")]
    assert [(part.in_features, part.out_features) for part in linear] == [(width, 5), (5, 7)]
    assert network(torch.from_numpy(prepared)).shape == (6, 7)

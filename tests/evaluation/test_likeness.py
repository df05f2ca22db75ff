"""What records are compared by, counted by hand."""

import math

import numpy as np
import pytest

from divulge.decisions import controls
from divulge.evaluation import blind


def test_the_style_of_a_text_is_counted():
    text = "In 1999 ΑB, 2010!"
    expected = {
        "characters": math.log1p(17),
        "words": math.log1p(4),
        "length of a word": 17 / 5,
        "digits": 8 / 17,
        "capitals": 3 / 17,
        "neither letter nor digit": 5 / 17,
        "beyond ASCII": 1 / 17,
        "years": 2,
        "newest year": 2010,
        "mean year": 2004.5,
    }
    assert blind._style_features(text) == pytest.approx(list(expected.values()))
    assert blind._style_features("") == [0.0] * 10
    # The shares of the other control's surface: length, digits, capitals, any year, newest year, number of years.
    assert controls._style_features(text) == pytest.approx((math.log1p(17) / 10, 8 / 17, 3 / 17, 1, 1.1, 0.2))
    assert controls._style_features("1950 " * 12)[-1] == 1.0
    assert controls._style_features("") == pytest.approx((math.log1p(1) / 10, 0, 0, 0, 0, 0))


def test_images_are_summarised_by_brightness_contrast_range_roughness_and_darkest_pixels():
    rows = np.array([[0.0, 0.0, 4.0, 2.0], [8.0, 6.0, 6.0, 8.0]])
    expected = np.array(
        [
            [6 / 32, np.std([0, 0, 4, 2]) / 8, 0, 0.5, (0 + 4 + 2) / 24, 0.5],
            [28 / 32, np.std([8, 6, 6, 8]) / 8, 0.75, 1, (2 + 0 + 2) / 24, 0.5],
        ]
    )
    np.testing.assert_allclose(blind._image_summaries(rows, rows), expected)
    dark = np.array([[1.0, 2.0, 2.0, 5.0], [1.0, 2.0, 9.0, 9.0]])
    np.testing.assert_allclose(blind._image_summaries(dark, dark)[:, -1], [0.25, 0.25])


def test_columns_are_compared_in_standard_deviations_at_most_five():
    columns = np.column_stack([np.r_[np.arange(40.0), 1e6], np.ones(41)])
    linear, radial = blind._linear_and_radial_kernels(columns)
    z = np.clip((columns[:, 0] - columns[:, 0].mean()) / columns[:, 0].std(), -5, 5)
    np.testing.assert_allclose(linear, np.outer(z, z), atol=1e-9)
    distances = (z[:, None] - z) ** 2
    np.testing.assert_allclose(radial, np.exp(-distances / np.median(distances)), atol=1e-6)
    assert blind._linear_and_radial_kernels(np.ones((3, 2)))[0].tolist() == np.zeros((3, 3)).tolist()

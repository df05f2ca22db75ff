"""Versions of records: what they are, that the seed decides them, and what is refused."""

import numpy as np
import pytest

import divulge as dv
from divulge.signals.versions import ImageVersions, NoisyVersions, OwnVersions

IMAGES = dv.Records(np.arange(2 * 4 * 5, dtype=np.float32).reshape(2, 4, 5), [0, 1], ["a", "b"])


def moved(image, down, right):
    """One image moved, pixel by pixel, with edges reflected (the edge itself is not repeated)."""
    high, wide = image.shape[:2]

    def inside(start, length):
        start = -start if start < 0 else start
        return 2 * (length - 1) - start if start >= length else start

    rows, columns = [inside(i + down, high) for i in range(high)], [inside(j + right, wide) for j in range(wide)]
    return np.array([[image[i, j] for j in columns] for i in rows])


def test_shifts_and_flips_are_those_of_the_published_code():
    versions = ImageVersions(shift=1).generate(IMAGES)
    expected = [
        np.stack([moved(image[:, ::-1] if flip else image, down, right) for image in IMAGES.x])
        for flip in (False, True)
        for down in (-1, 0, 1)
        for right in (-1, 0, 1)
        if flip or (down, right) != (0, 0)
    ]
    assert len(versions) == ImageVersions(shift=1).count == 17
    for version, exact in zip(versions, expected, strict=True):
        np.testing.assert_array_equal(version.x, exact)
        assert version.x.dtype == np.float32
        np.testing.assert_array_equal(version.y, IMAGES.y)


@pytest.mark.parametrize("channels", [1, 3])
def test_channels_first_last_and_flat_rows_are_the_same_images(channels):
    x = np.random.default_rng(0).normal(size=(3, 6, 5, channels))
    channels_last = ImageVersions().generate(dv.Records(x))
    channels_first = ImageVersions().generate(dv.Records(np.moveaxis(x, 3, 1)))
    flat = ImageVersions(shape=(6, 5, channels)).generate(dv.Records(x.reshape(3, -1)))
    for a, b, c in zip(channels_last, channels_first, flat, strict=True):
        np.testing.assert_array_equal(np.moveaxis(b.x, 1, 3), a.x)
        np.testing.assert_array_equal(c.x.reshape(a.x.shape), a.x)
    assert len(ImageVersions(flip=False).generate(dv.Records(x))) == ImageVersions(flip=False).count == 8
    assert len(ImageVersions(shift=0).generate(dv.Records(x))) == ImageVersions(shift=0).count == 1


def test_noise_has_its_size_flips_what_is_two_valued_and_follows_the_seed():
    rng = np.random.default_rng(0)
    rows = dv.Records(np.column_stack([rng.normal(5, 3, 4000), rng.random(4000) < 0.3]))
    noisy = NoisyVersions(count=3, scale=0.2, flips=0.1)
    versions = noisy.generate(rows, seed=1)
    moved = np.concatenate([version.x[:, 0] - rows.x[:, 0] for version in versions])
    assert moved.std() == pytest.approx(0.2 * rows.x[:, 0].std(), rel=0.05)
    flipped = np.concatenate([version.x[:, 1] != rows.x[:, 1] for version in versions])
    assert flipped.mean() == pytest.approx(0.1, abs=0.02)
    assert set(np.unique(versions[0].x[:, 1])) == {0.0, 1.0}
    for same_seed, other_seed, version in zip(
        noisy.generate(rows, seed=1), noisy.generate(rows, seed=2), versions, strict=True
    ):
        np.testing.assert_array_equal(same_seed.x, version.x)
        assert not np.array_equal(other_seed.x, version.x)


def test_constant_columns_and_whole_numbers_are_no_trouble():
    rows = dv.Records(np.column_stack([np.full(5, 7), np.arange(5)]))
    for version in NoisyVersions().generate(rows):
        np.testing.assert_array_equal(version.x[:, 0], 7)
        assert version.x.dtype.kind == "f"


def test_a_function_of_ones_own_gets_copies_and_a_seeded_generator():
    def jitter(x, rng):
        x += rng.normal(size=x.shape)
        return x

    images_before = IMAGES.x.copy()
    versions, repeated = (OwnVersions(jitter, 2).generate(IMAGES, 3) for _ in range(2))
    np.testing.assert_array_equal(IMAGES.x, images_before)
    np.testing.assert_array_equal(versions[1].x, repeated[1].x)
    assert not np.array_equal(versions[0].x, versions[1].x)


TEXTS = dv.Records(["a b", "c"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ImageVersions(flip=False, shift=0), "neither flips nor shifts"),
        (lambda: ImageVersions(shift=-1), "ImageVersions.shift: must be at least 0"),
        (
            lambda: ImageVersions(shift=4).generate(IMAGES),
            r"ImageVersions.shift: 4 does not fit images of shape \(4, 5\)",
        ),
        (lambda: ImageVersions().generate(dv.Records(np.ones((3, 7)))), r"flipped and shifted, got shape \(7,\)"),
        (lambda: ImageVersions().generate(dv.Records(np.ones((3, 3, 9, 3)))), "say|shape=|got shape"),
        (lambda: ImageVersions(shape=(2, 2)).generate(IMAGES), r"ImageVersions.shape: \(2, 2\) does not fit records"),
        (lambda: ImageVersions().generate(TEXTS), "got texts"),
        (lambda: NoisyVersions().generate(TEXTS), "got texts"),
        (lambda: NoisyVersions(scale=0.0), "NoisyVersions.scale"),
        (lambda: NoisyVersions(flips=1.5), "NoisyVersions.flips"),
        (lambda: OwnVersions(3), "OwnVersions.function"),
        (lambda: OwnVersions(lambda x, rng: x[:1]).generate(IMAGES), r"\(2, 4, 5\) is needed of the function"),
        (lambda: OwnVersions(lambda x, rng: x / 0).generate(IMAGES), "versions: what the function returns"),
        (lambda: OwnVersions(lambda x, rng: 1 // 0).generate(IMAGES), "versions: the function: your code raised"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(call, message):
    with np.errstate(all="ignore"), pytest.raises((dv.InputError, dv.errors.UserCodeError), match=message):
        call()

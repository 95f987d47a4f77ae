"""What is kept of a first request."""

import math
import re
from array import array
from collections import Counter
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_predictor.features import BUCKETS, MOST_HEAD, MOST_TAIL, NUMBERS, Features, FirstRequest, cut


def request(text: bytes, most_output: int | None = 256) -> FirstRequest:
    return FirstRequest(cut(text), len(text), 100, most_output, 2, 3)


@given(st.text().map(str.encode))
def test_packed_features_come_back(text: bytes) -> None:
    features = Features.of(request(text))
    assert Features.checked(features.packed) == features


@given(st.binary(max_size=200))
def test_what_was_not_packed_is_refused_or_is_features(content: bytes) -> None:
    try:
        features = Features.checked(content)
    except ValueError:
        return
    assert len(features.numbers) == len(NUMBERS)
    assert all(map(math.isfinite, features.numbers))
    assert all(0 <= bucket < BUCKETS and count > 0 for bucket, count in features.terms.items())


@pytest.mark.parametrize(
    ("rest", "sound"),
    [
        ((), True),
        ((1, 1, 2, 1), True),
        ((BUCKETS - 1, 2**16 - 1), True),
        ((BUCKETS, 1), False),
        ((1, 0), False),
        ((2, 1, 1, 1), False),
        ((1, 1, 1, 1), False),
        ((1,), False),
    ],
)
def test_pairs_that_cannot_be_learned_from_are_refused(rest: tuple[int, ...], sound: bool) -> None:
    packed = Features.of(request(b"")).packed + array("H", rest).tobytes()
    if sound:
        assert Features.checked(packed).terms == dict(zip(rest[::2], rest[1::2], strict=True))
        return
    with pytest.raises(ValueError, match="are not packed features"):
        Features.checked(packed)


def test_numbers_that_cannot_be_learned_from_are_refused() -> None:
    for numbers in ([math.nan] * len(NUMBERS), [math.inf] * len(NUMBERS), [1.0] * (len(NUMBERS) - 1)):
        with pytest.raises(ValueError, match="are not packed features"):
            Features.checked(array("d", numbers).tobytes())


@given(
    st.lists(st.sampled_from([b"\\n", b"\\", b'"', b"/", b"Ab", b"_9", b"n", b" ", b"\n", b"\xc3\xa4"])).map(b"".join)
)
def test_words_are_those_between_escapes_and_other_bytes(text: bytes) -> None:
    words = re.findall(rb"\w+", re.sub(rb'\\[nrtbf"/\\]', b" ", text.lower()))
    assert Features.of(request(text)).terms == Counter(crc32(word) % BUCKETS for word in words)


def test_words_count_whatever_their_case_and_order() -> None:
    one, other = Features.of(request(b"Check the Sum, check it")), Features.of(request(b"it: sum CHECK check the"))
    assert one.terms == other.terms
    assert sorted(one.terms.values()) == [1, 1, 1, 2]
    assert one.terms != Features.of(request(b"check the product, check it")).terms


def test_what_json_escapes_parts_words() -> None:
    plain, escaped = Features.of(request(b'say it "now" and go')), Features.of(request(rb"say\nit \"now\"\tand go"))
    assert plain.terms == escaped.terms


def test_numbers_are_logarithms() -> None:
    numbers = Features.of(request(b"four word text here")).numbers
    assert numbers == pytest.approx([math.log(20), math.log(101), math.log(257), math.log(3), math.log(4)])
    assert Features.of(request(b"four word text here", None)).numbers[2] == 0


def test_beginning_and_end_of_a_long_text_count_and_nothing_between() -> None:
    long = b"first " + b"a " * MOST_HEAD + b"middle " + b"a " * MOST_TAIL + b"last"
    same = b"first " + b"a " * MOST_HEAD + b"centre " + b"a " * MOST_TAIL + b"last"
    terms = Features.of(request(long)).terms
    assert terms == Features.of(request(same)).terms
    for word in (b"first", b"last"):
        (bucket,) = Features.of(request(word)).terms
        assert terms[bucket] == 1


def test_the_text_does_not_show_in_what_is_kept() -> None:
    assert b"confidential" not in Features.of(request(b"confidential")).packed

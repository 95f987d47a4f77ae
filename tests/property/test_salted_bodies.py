"""Whatever a client sends, its body means the same after the splice, except that the salt is ours."""

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from justitia_sidecar.identity.salt import salted

SALT = "5a17"
WHITE_SPACE = st.text(" \t\r\n", max_size=3)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.just("cache_salt"), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def names(draw: st.DrawFn) -> tuple[str, str]:
    """A member's name, and one of the ways to write it."""
    name = draw(st.sampled_from(["cache_salt", "cache_salt", "model", "}"]) | st.text())
    if draw(st.booleans()):
        return name, '"' + "".join(f"\\u{unit:04x}" for unit in _utf16(name)) + '"'
    return name, json.dumps(name, ensure_ascii=draw(st.booleans()))


def _utf16(text: str) -> list[int]:
    data = text.encode("utf-16-be")
    return [int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2)]


@st.composite
def objects(draw: st.DrawFn) -> tuple[bytes, dict[str, object]]:
    """JSON of an object whose members may have one name several times, and what it means to who takes the last."""
    members: list[str] = []
    meant: dict[str, object] = {}
    for name, written in draw(st.lists(names(), min_size=1, max_size=5)):
        value, space = draw(VALUES), draw(WHITE_SPACE)
        indent = draw(st.sampled_from([None, 1]))
        members.append(f"{space}{written}{space}:{json.dumps(value, ensure_ascii=draw(st.booleans()), indent=indent)}")
        meant[name] = value
    text = draw(WHITE_SPACE) + "{" + ",".join(members) + draw(WHITE_SPACE) + "}" + draw(WHITE_SPACE)
    return text.encode(), meant


@given(objects())
def test_a_spliced_body_means_the_same_with_our_salt(body: tuple[bytes, dict[str, object]]) -> None:
    text, meant = body
    assert json.loads(text) == meant
    expected = meant | {"cache_salt": SALT}
    assert json.loads(salted(text, SALT)) == expected
    assert msgspec.json.decode(salted(text, SALT)) == expected


@given(objects())
def test_nothing_but_the_splice_is_added(body: tuple[bytes, dict[str, object]]) -> None:
    text, _ = body
    assert b"".join(salted(text, SALT).rsplit(b',"cache_salt":"5a17"', 1)) == text

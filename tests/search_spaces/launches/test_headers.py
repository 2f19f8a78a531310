"""The names and contents of a set of headers determine its digest. After a change, the folder is read again."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.launches.headers import Headers, included

NAMES = st.from_regex(r"[a-z]{1,3}(/[a-z]{1,3}){0,2}\.cuh", fullmatch=True)
TEXTS = st.dictionaries(NAMES, st.text("a/é\n ", max_size=20))


@given(TEXTS, TEXTS)
def test_headers_are_their_content(one, other):
    a, b = Headers.of(one), Headers.of(other)
    assert (a == b) == (a.digest == b.digest) == (one == other)
    assert Headers.decode(a.encoded) == a
    assert hashlib.sha256(a.encoded).hexdigest() == a.digest
    assert dict((a | b).files) == one | other


def test_a_folder_is_read_once_until_it_changes(tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "a.cuh").write_text("// a\n")
    (tmp_path / "deep" / "er" / "b.h").write_text("// b, é\r\n", newline="")
    (tmp_path / "notes.txt").write_bytes(b"\xff")
    first = Headers.from_folder(tmp_path)
    assert dict(first.files) == {"a.cuh": "// a\n", "deep/er/b.h": "// b, é\r\n"}
    assert Headers.from_folder(tmp_path) is first
    (tmp_path / "a.cuh").write_text("// other\n")
    second = Headers.from_folder(tmp_path)
    assert second != first
    second.write(tmp_path / "copy")
    assert Headers.from_folder(tmp_path / "copy") == second


def test_a_binary_header_is_reported_by_name(tmp_path):
    (tmp_path / "bad.cuh").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"bad\.cuh is not UTF-8 text"):
        Headers.from_folder(tmp_path)


@pytest.mark.parametrize("name", ["/etc/passwd", "../up.cuh", "a/../b.cuh", "a//b.cuh", "./a.cuh", ".", "", "a\0b"])
def test_a_name_that_leaves_the_folder_is_rejected(name):
    with pytest.raises(ValueError, match="a path below the include folder"):
        Headers.of({name: ""})


@pytest.mark.parametrize("encoded", [b"[]", b'{"a.cuh": 1}', b"no JSON", b'{"../a": ""}'])
def test_invalid_encoded_headers_are_rejected(encoded):
    with pytest.raises(ValueError):
        Headers.decode(encoded)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('#include <a/b.cuh>\n  #  include "c.cuh"\n', ("a/b.cuh", "c.cuh")),
        ("\n\t#include<d.cuh> // and why", ("d.cuh",)),
        ("// #include <e.cuh>\nint x; #include <f.cuh>\n", ()),
        ('// was #include "g.cuh, see below\n#include <g.cuh>\n', ("g.cuh",)),
        ("", ()),
    ],
)
def test_includes_begin_a_line(text, names):
    assert included(text) == names

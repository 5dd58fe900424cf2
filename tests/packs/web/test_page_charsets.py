"""Pages are decoded correctly despite wrong declarations by server and page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_packs.web.page_charsets import decode_page, find_meta_charset

WORDS = {
    "de": "Der Wärter stieg jeden Abend auf den Turm und zündete vor der Nacht die große Lampe an.",
    "pl": "Latarnik co wieczór wchodził na wieżę i zapalał lampę, zanim zaszło słońce.",
    "ru": "Смотритель каждый вечер поднимался на башню и зажигал большую лампу до захода солнца.",
    "ja": "灯台守は毎晩、日が沈む前に塔に登ってランプに火をともした。",
    "zh": "守灯人每天晚上在太阳下山之前都要爬上灯塔，点亮那盏大灯，孩子们在沙滩上找贝壳。",
    "ko": "등대지기는 매일 저녁 해가 지기 전에 탑에 올라가 등불을 켰다. 아이들은 조개를 찾는다.",
}
ENCODINGS = [
    ("de", "iso-8859-1"),
    ("de", "utf-8"),
    ("pl", "iso-8859-2"),
    ("ru", "windows-1251"),
    ("ru", "koi8-r"),
    ("ja", "shift_jis"),
    ("ja", "euc-jp"),
    ("ja", "iso-2022-jp"),
    ("ja", "utf-16-le"),
    ("zh", "gbk"),
    ("zh", "utf-8"),
    ("ko", "euc-kr"),
    ("ko", "utf-16-be"),
]


def make_page(language: str, meta: str = "") -> str:
    return f"<html><head>{meta}</head><body><p>{WORDS[language] * 3}</p></body></html>"


@pytest.mark.parametrize(("language", "encoding"), ENCODINGS)
def test_correct_declarations_of_server_and_page_are_used(language: str, encoding: str) -> None:
    page = make_page(language)
    assert page == decode_page(page.encode(encoding), encoding)
    page = make_page(language, f"<meta charset='{encoding}'>")
    assert page == decode_page(page.encode(encoding), "")


@pytest.mark.parametrize(("language", "encoding"), ENCODINGS)
@pytest.mark.parametrize("told", ["utf-8", "utf-16", "no-such", "us-ascii", "x-user-defined"])
def test_a_wrong_server_charset_is_ignored_if_the_bytes_do_not_fit(
    language: str, encoding: str, told: str
) -> None:
    page = make_page(language, f"<meta charset='{encoding}'>")
    assert page == decode_page(page.encode(encoding), told)


@pytest.mark.parametrize(("language", "encoding"), ENCODINGS)
@pytest.mark.parametrize("told", ["iso-8859-1", "windows-1252", "us-ascii"])
def test_the_charset_of_a_page_overrides_its_servers_default(
    language: str, encoding: str, told: str
) -> None:
    page = make_page(language, f"<meta charset='{encoding}'>")
    assert page == decode_page(page.encode(encoding), told)


@pytest.mark.parametrize("told", ["iso-8859-1", "gbk", "shift_jis", "euc-kr", "windows-1251"])
@pytest.mark.parametrize("language", WORDS)
def test_utf_8_is_detected_despite_other_declarations(language: str, told: str) -> None:
    page = make_page(language, f"<meta charset='{told}'>")
    assert page == decode_page(page.encode(), told)


@pytest.mark.parametrize(
    ("content", "charset", "text"),
    [
        ("Grüße".encode("latin-1"), "iso-8859-1", "Grüße"),
        ("Grüße".encode("latin-1"), "utf-8", "Grüße"),
        ("Grüße".encode(), "", "Grüße"),
        ("\ufeffGrüße".encode("utf-16-le"), "iso-8859-1", "Grüße"),
        ("\ufeffGrüße".encode(), "iso-8859-1", "Grüße"),
        ("Grüße".encode(), "no-such-charset", "Grüße"),
        ("“Grüße” – €".encode("cp1252"), "iso-8859-1", "“Grüße” – €"),
        ("①髙".encode("cp932"), "shift_jis", "①髙"),
        ("镕".encode("gbk"), "gb2312", "镕"),
        ("Grüße, Łódź, 灯".encode() + b"\xff", "utf-8", "Grüße, Łódź, 灯\ufffd"),
        ("Grüße, Łódź, 灯".encode()[:-1], "utf-8", "Grüße, Łódź, \ufffd"),
        (b"plain", "utf-16", "plain"),
        (b"", "utf-8", ""),
    ],
)
def test_bytes_are_decoded_to_the_intended_text(content: bytes, charset: str, text: str) -> None:
    assert text == decode_page(content, charset)


@pytest.mark.parametrize(
    ("head", "codec"),
    [
        ('<meta charset="utf-16">', "utf-8"),
        ("<meta charset=unicode>", "utf-8"),
        ("<META CHARSET=ucs-2>", "utf-8"),
        ("<meta charset=x-user-defined>", "cp1252"),
        ("<meta charset=latin1>", "cp1252"),
        ("<meta charset='no-such'><meta charset=koi8-r>", "koi8-r"),
        ('<meta http-equiv="Content-Type" content="text/html; charset=gb2312">', "gb18030"),
        ("<meta content='text/html;charset=big5' http-equiv=content-type />", "big5hkscs"),
        ('<meta name="about" content="how charset=koi8-r is set">', ""),
        ("<!-- <meta charset=koi8-r> --><meta charset=utf-8>", "utf-8"),
        ("<script>'<meta charset=koi8-r>'</script><meta charset=utf-8>", "utf-8"),
        ("<!-- no end <meta charset=koi8-r>", ""),
        ("<link href=x>" * 2000 + "<meta charset=koi8-r>", "koi8-r"),
        ('<?xml version="1.0" encoding="windows-1251"?><html>', "cp1251"),
        ("<metadata charset=koi8-r>", ""),
        ("<meta charset=koi8-r", ""),
    ],
)
def test_encodings_of_pages_are_read_as_browsers_do(head: str, codec: str) -> None:
    assert codec == find_meta_charset(head.encode())


@pytest.mark.parametrize("told", ["gbk", "shift_jis", "big5", "euc-kr", "utf-16"])
@pytest.mark.parametrize("language", ["de", "pl", "ru"])
def test_noise_of_cjk_characters_is_not_accepted_as_text(language: str, told: str) -> None:
    encoding = dict(ENCODINGS)[language] if language != "de" else "iso-8859-1"
    text = decode_page(make_page(language).encode(encoding), told)
    assert not [character for character in text if character > "\u2e80"]


@given(content=st.binary(max_size=300), charset=st.sampled_from(["", "utf-8", "gbk", "utf-16"]))
def test_law_any_bytes_become_text_that_can_be_encoded(content: bytes, charset: str) -> None:
    decode_page(content, charset).encode()

"""Names and addresses have the forms that Kubernetes and sockets accept, and no others."""

from collections.abc import Callable

import pytest

from ebbtide.config import names
from ebbtide.config.names import HostPort

LONG = "a" * 64


@pytest.mark.parametrize(
    ("is_form", "valid", "invalid"),
    [
        (names.is_dns_label, ["a", "a-1", "1a", LONG[1:]], ["", "-a", "a-", "A", "a.b", "a_b", LONG, "ä", "a\n"]),
        (names.is_service_name, ["a", "a-1", LONG[1:]], ["", "1a", "A", "a.b", LONG]),
        (names.is_dns_name, ["a", "a.b-c.d", "1.2"], ["", "a..b", ".a", "a.", "A.b", ".".join([LONG[1:]] * 4)]),
        (
            names.is_label_key,
            ["a", "A_b.c-d", "a.b/c", "x-y.z/N", "serverless.tidbcloud.com/node"],
            ["", "/a", "a/", "a/b/c", "A.b/c", "a b", "-a", LONG, f"a/{LONG}", "a=b"],
        ),
        (names.is_label_value, ["", "a", "A_b.c-d", LONG[1:]], ["-", "a b", "a/b", LONG]),
        (
            names.is_label_selector,
            ["a", "!a", "a=b", "a==b", "a!=b", "a=", "x.y/a=b,c", "a=b, !c"],
            ["", ",", "a=b,", "=b", "a=b=c", "a in (b)", "a = b", "!a=b"],
        ),
        (
            names.is_host_name,
            ["a", "a.b", "A-1.b.", "10.0.0.1", "::1"],
            ["", "a..b", "-a", "a b", "1.2.3", "999.0.0.1", "fe80::1%x"],
        ),
        (names.is_certificate_name, ["a.b", "*.a.b", "10.0.0.1", "::1"], ["", "*", "a.*", "**.a", "a b"]),
        (
            names.is_http_url,
            ["http://a", "https://a.b:1/c/d", "http://169.254.169.254", "http://[::1]:8080"],
            [
                "",
                "a",
                "ftp://a",
                "http://",
                "http://a:x",
                "http://a:0",
                "http://u@a",
                "http://a?q",
                "http://a#f",
                "http://a/ b",
            ],
        ),
        (names.is_aws_region, ["eu-central-1", "us-gov-west-1"], ["", "eu", "EU-central-1", "eu-central"]),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_form_takes_the_valid_and_refuses_the_rest(
    is_form: Callable[[str], bool], valid: list[str], invalid: list[str]
) -> None:
    assert {text: is_form(text) for text in valid + invalid} == dict.fromkeys(valid, True) | dict.fromkeys(
        invalid, False
    )


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("0.0.0.0:8080", "0.0.0.0", 8080),
        ("127.0.0.1:0", "127.0.0.1", 0),
        ("localhost:65535", "localhost", 65535),
        ("[::]:8080", "::", 8080),
    ],
)
def test_an_address_is_taken_apart_and_printed_again(text: str, host: str, port: int) -> None:
    assert HostPort.parse(text) == HostPort(host, port)
    assert str(HostPort(host, port)) == text


@pytest.mark.parametrize(
    "text",
    ["", "8080", ":8080", "a", "a:", "a:-1", "a:65536", "a:x", "::1:80", "[::1]", "[a]:80", "a b:80", "1.2.3:80"],
)
def test_anything_else_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match=r"no (host|port)"):
        HostPort.parse(text)

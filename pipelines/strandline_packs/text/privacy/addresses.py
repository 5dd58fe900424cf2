"""Finds personal addresses and numbers in text: a pattern and a check for each kind.

This module does no I/O. Matches are replaced with the name of their kind. No pattern matches such a
name.
"""

from __future__ import annotations

import ipaddress
import re

from strandline_api.texts import RedactionRule

_ACCOUNT_MODULUS = 97  # an IBAN as a number modulo 97 is 1 (ISO 7064)
_PHONE_DIGITS = range(8, 16)  # E.164 allows up to 15 digits


def is_public_ip(text: str) -> bool:
    """Return True for an address on the public internet, not a private or reserved address."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return address.is_global and not address.is_reserved and not address.is_multicast


def is_ip(text: str) -> bool:
    """Return True for any address, including addresses of private networks."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def is_card_number(text: str) -> bool:
    """Return True for 13 to 19 digits, not all the same, with a valid Luhn check digit."""
    digits = [int(character) for character in text if character.isdecimal()]
    # The digits of a product such as 18 are added: 1 + 8.
    doubled = [sum(divmod(digit * 2, 10)) for digit in digits[-2::-2]]
    return len(set(digits)) > 1 and (sum(doubled) + sum(digits[-1::-2])) % 10 == 0


def is_account_number(text: str) -> bool:
    """Return True for an IBAN with valid check digits."""
    letters = text.replace(" ", "")
    # Move country and check digits to the end, and convert letters to numbers starting with A = 10.
    numbers = "".join(str(int(letter, 36)) for letter in letters[4:] + letters[:4])
    return int(numbers) % _ACCOUNT_MODULUS == 1


_OCTET = r"(?:25[0-5]|2[0-4][0-9]|[01]?[0-9]?[0-9])"
_NUMBERS = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
EMAIL = RedactionRule(
    "email",
    re.compile(
        r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,64}@(?:"
        r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9-])"
        # The name identifies a person on every host, including hosts of private networks.
        rf"|{_NUMBERS}(?![A-Za-z0-9-]|\.[A-Za-z0-9])"
        rf"|\[(?:{_NUMBERS}|(?i:IPv6:)?[0-9A-Fa-f:]{{2,39}}(?::{_NUMBERS})?)\])"
    ),
    "<EMAIL>",
    hints=("@",),
)
IPV4 = RedactionRule(
    "ip",
    # The look-behind comes after the first digit, so that the search can jump from digit to digit.
    # Longer chains such as `v1.2.3.4` and `1.2.3.4.5` do not match.
    re.compile(r"[0-9](?<![\w.][0-9])[0-9]{0,2}(?:\.[0-9]{1,3}){3}(?!\.?\w)"),
    "<IP>",
    is_public_ip,
    hints=(".",),
)
IPV6 = RedactionRule(
    "ip",
    re.compile(
        r"[0-9A-Fa-f](?<![\w:.].)[0-9A-Fa-f]{0,3}:"
        r"(?=(?::{0,2}[0-9A-Fa-f]{1,4}){2})[0-9A-Fa-f:]{3,36}(?![\w:.])"
    ),
    "<IP>",
    is_public_ip,
    hints=(":",),
)
CARD = RedactionRule(
    "card number",
    re.compile(r"(?<![\w.-])[0-9](?:[ -]?[0-9]){12,18}(?![\w-]|\.[0-9])", re.ASCII),
    "<CARD>",
    is_card_number,
)
ACCOUNT = RedactionRule(
    "account number",
    re.compile(r"(?<!\w)[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?!\w)"),
    "<IBAN>",
    is_account_number,
)
PHONE = RedactionRule(
    "phone number",
    re.compile(
        r"(?<![\w.+-])(?:"
        r"\+[0-9]{1,3}(?:[ .-]?\(?[0-9]{1,4}\)?){2,6}"
        r"|\([0-9]{3}\) ?[0-9]{3}[ .-][0-9]{4}"
        r"|[0-9]{3}([ .-])[0-9]{3}\1[0-9]{4}"
        r"|0[0-9]{1,4}[ /-][0-9]{2,8}(?:[ -][0-9]{2,8}){0,4}"
        r")(?![\w-]|\.[0-9])"
    ),
    "<PHONE>",
    lambda text: sum(map(str.isdecimal, text)) in _PHONE_DIGITS,
)

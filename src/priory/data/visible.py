"""Visible: texts from a file as they may be shown, for a terminal obeys some characters instead of showing them."""

import re

# An address up to its user and password, what follows its question mark, and passwords by name.
ADDRESS = r"\b[a-zA-Z][a-zA-Z0-9+.-]+:/{1,3}"
USER = re.compile(rf"({ADDRESS}).*@", re.DOTALL)
OPTIONS = re.compile(rf"({ADDRESS}[^\s?]*)\?\S*")
PASSWORD = re.compile(r"\b(password|passwd|pwd)\s*=\s*('[^']*'|\S+)", re.IGNORECASE)


def visible(text: str, *, keeps_lines: bool = False) -> str:
    r"""The text with every character that cannot be seen, or turns others around, replaced by its escape.

    These are the ones that Python's `repr` escapes: control characters, line ends, marks of direction, spaces other
    than the usual one, and what is no Unicode. Line ends stay where `keeps_lines` says so.

    >>> print(visible("a\x1b]0;title\x07b\u202ec"))
    a\x1b]0;title\x07b\u202ec
    """
    if text.isprintable():
        return text
    seen = [letter.isprintable() or (keeps_lines and letter == "\n") for letter in text]
    return "".join(c if is_seen else c.encode("unicode_escape").decode() for c, is_seen in zip(text, seen, strict=True))


def without_passwords(text: str) -> str:
    """The text without the users, passwords and options of the addresses in it.

    >>> without_passwords("cannot open postgresql://ann:s3@cret@host/people?sslkey=7")
    'cannot open postgresql://…@host/people?…'
    """
    return PASSWORD.sub(r"\1=…", OPTIONS.sub(r"\1?…", USER.sub(r"\1…@", text)))

"""The header that proves who we are, from whatever a file, a plugin or an identity provider gave."""

from ebbtide.kube.errors import NoCredentials


def authorization(credentials: str, identity: str) -> dict[str, str]:
    """Without the white space around it, which files end with.

    Raises NoCredentials for what no header can carry, such as a token with a line break inside: HTTP libraries refuse
    it with errors of programming. `identity` says whose it is.
    """
    value = credentials.strip()
    if not (value.isascii() and value.isprintable()):
        raise NoCredentials(
            f"{identity}: its token cannot be sent: there is a line break, or another character that no token has, "
            "inside it; what gives the token must give nothing else"
        )
    return {"Authorization": value} if value else {}

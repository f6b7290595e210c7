"""Which hosts are this machine itself, by their names and addresses."""

import ipaddress


def loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

"""Who pays: an account, what it may use, and how much weight it has among others.

A value; knows nothing of keys, or of where accounts are kept.
"""

import msgspec


class Account(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """`id` tells accounts apart and is not a secret; empty: nobody in particular.

    `weight`: its share of a crowded pool, beside those of others.
    """

    id: str = ""
    weight: float = 1.0


NOBODY = Account()

"""Identifiers, and units of what is counted.

Tokens are integers. Seconds are engine or wall seconds as the name says. KV token-time is tokens of KV held times
iterations held: the unit of a run's cost C and of virtual time V.
"""

from typing import NewType

TenantId = NewType("TenantId", str)
ApplicationId = NewType("ApplicationId", str)
RunId = NewType("RunId", str)
RequestId = NewType("RequestId", str)

Tokens = int
Seconds = float
KVTokenTime = float

"""Makes the cache salt of a request, which decides whose prompts it may share KV blocks with.

vLLM hashes `cache_salt` into the first block of a prompt, and each block into the next one, so two requests share
blocks only under one salt. Ours is the SHA-256 of `tenant/NAME`, or of `group/NAME` for tenants that the pool's owner
has put into one group; vLLM takes no slash in a salt and 128 characters at most, so the names themselves cannot be
salts. The client's own salt has no effect: vLLM reads the last of several members of one name, and ours is the last.
"""

import hashlib

from justitia_vocabulary.units import TenantId

_MEMBER = b',"cache_salt":"%b"'


def cache_salt(tenant: TenantId, group: str | None) -> str:
    """The salt of a tenant's requests, hex. `group`: the tenant's group in the pool, if it has one."""
    name = f"tenant/{tenant}" if group is None else f"group/{group}"
    return hashlib.sha256(name.encode()).hexdigest()


def salted(body: bytes, salt: str) -> bytes:
    """The body with this salt as its last member. `body` is the JSON of an object that has members. It is neither
    parsed nor written again: only white space may follow the object, so the last brace is the object's.
    """
    end, view = body.rindex(b"}"), memoryview(body)
    return b"".join((view[:end], _MEMBER % salt.encode(), view[end:]))

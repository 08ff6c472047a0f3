"""How property tests run, everywhere: no deadline, and in CI the same examples each time.

`PERFKIT_EXAMPLES=2000 pytest ...` tries that many examples a property instead of Hypothesis' hundred.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from hypothesis import settings


def register_profiles(environment: Mapping[str, str]) -> str:
    """Register the profiles `perfkit` and `perfkit-ci`; the name of the one that `environment` asks for.

    No deadline: an example that is slow on a shared machine is not a wrong one. With `derandomize` the
    examples depend on the test alone, so that a red CI is red again for whoever looks into it; elsewhere
    every session looks for new ones, and remembers what failed.
    """
    examples = int(environment.get("PERFKIT_EXAMPLES", "100"))
    # Hypothesis loads a profile of its own where a variable CI exists; ours do not inherit from it.
    plain = settings.get_profile("default")
    settings.register_profile("perfkit", plain, deadline=None, max_examples=examples)
    settings.register_profile(
        "perfkit-ci", plain, deadline=None, max_examples=examples, derandomize=True, database=None,
        print_blob=True,
    )  # fmt: skip
    # What CI services set is "true" or "1"; an empty CI or "false" is how people switch it off.
    in_ci = environment.get("CI", "").lower() not in ("", "0", "false")
    return "perfkit-ci" if in_ci else "perfkit"


# When the plugin is configured, --hypothesis-profile replaces this choice.
settings.load_profile(register_profiles(os.environ))

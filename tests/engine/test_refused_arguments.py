"""Refused arguments and variables exist in the installed vLLM, and each argument is refused however it is spelled."""

import json
import os
import subprocess
from typing import NamedTuple

import pytest

from justitia_api.engine import EngineSpec
from justitia_cli.runtime import ensure_engine
from justitia_operator.build.arguments import REFUSED_FLAGS, REFUSED_VARIABLES, refused_argument

PROGRAM = """
import json
from vllm.config import ParallelConfig
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.envs import environment_variables
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = make_arg_parser(FlexibleArgumentParser())
options = [action.option_strings for action in parser._actions]
print(json.dumps([options, list(environment_variables), ParallelConfig().data_parallel_size]))
"""


class Installed(NamedTuple):
    """What the installed vLLM has: the spellings of each argument, its variables, and how many engine cores
    VLLM_DP_SIZE=2 makes.
    """

    options: list[list[str]]
    variables: list[str]
    cores: int


@pytest.fixture(scope="module")
def installed() -> Installed:
    runtime = ensure_engine(print, "cpu")
    told = subprocess.run(
        [str(runtime.python), "-c", PROGRAM],
        env=os.environ | dict(runtime.environment) | {"VLLM_DP_SIZE": "2"},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return Installed(*json.loads(told.stdout.splitlines()[-1]))


def is_refused(argument: str) -> bool:
    return refused_argument(EngineSpec(args=(argument,))) is not None


def test_what_is_refused_exists_and_every_spelling_of_it_is_refused(installed: Installed) -> None:
    every = [option for options in installed.options for option in options]
    assert [flag for flag in REFUSED_FLAGS if flag not in every] == []
    taken = []
    for options in installed.options:
        if not REFUSED_FLAGS.keys() & options:
            continue
        for option in (option for option in options if not option.startswith("--no-")):
            beginnings = [option[:end] for end in range(3, len(option))] if option.startswith("--") else []
            unambiguous = [each for each in beginnings if sum(other.startswith(each) for other in every) == 1]
            for spelled in (option, *unambiguous):
                with_underscores = spelled[:2] + spelled[2:].replace("-", "_")
                taken += [each for each in (spelled, f"{spelled}=1", with_underscores) if not is_refused(each)]
    assert taken == []


def test_what_the_parser_takes_for_something_else_is_the_users(installed: Installed) -> None:
    users = {"--max-model-len", "-tp", "-pp", "-q", "-cc", "--enable-prefix-caching", "--dtype", "--max-num-seqs"}
    assert users <= {option for options in installed.options for option in options}
    assert [flag for flag in sorted(users) if is_refused(flag)] == []


def test_refused_variables_exist_and_are_all_that_divide_an_engine(installed: Installed) -> None:
    every = installed.variables
    assert installed.cores == 2, "it does what --data-parallel-size does"
    assert [name for name in REFUSED_VARIABLES if name not in every] == []
    assert [name for name in every if name.startswith("VLLM_DP_") and name not in REFUSED_VARIABLES] == []

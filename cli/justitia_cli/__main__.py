"""`python -m justitia_cli` is the `justitia` command."""

from justitia_cli.main import main

main()

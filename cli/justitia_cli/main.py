"""Entry point of the `justitia` command; each subcommand lives in a module of its own."""

import typer

from justitia_cli.calibrate import calibrate_command
from justitia_cli.demo.command import demo_command
from justitia_cli.local_command import app as local_app
from justitia_cli.replay_command import replay_command
from justitia_cli.report import report_command
from justitia_cli.simulate import simulate_command
from justitia_cli.workload_command import app as workload_app

app = typer.Typer(no_args_is_help=True, pretty_exceptions_show_locals=False)
app.add_typer(local_app, name="local")
app.add_typer(workload_app, name="workload")
app.command("demo")(demo_command)
app.command("calibrate")(calibrate_command)
app.command("simulate")(simulate_command)
app.command("replay")(replay_command)
app.command("report")(report_command)


def main() -> None:
    app()

"""`python -m justitia_benchmarks` reproduces the papers' evaluations."""

from justitia_benchmarks.main import app

if __name__ == "__main__":
    app(prog_name="python -m justitia_benchmarks")

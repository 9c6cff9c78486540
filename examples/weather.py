"""Forecast a day: fit to a table of days, condition on a morning, predict the rest and the day's maximum.

python examples/weather.py                                  five minutes of training
python examples/weather.py --model cnp --steps 20           seconds, to see that it runs
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from mpnp import NeuralProcessRegressor

HERE = Path(__file__).parent


def main() -> None:
    """Fit, forecast, print and plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="mpanp", help="which model ('mpnp models' lists them)")
    parser.add_argument("--steps", type=int, help="training steps (default: as many as five minutes allow)")
    parser.add_argument("--out", type=Path, default=Path("forecast.png"), help="figure to write")
    options = parser.parse_args()

    weather = pd.read_csv(HERE / "nyc-weather" / "weather.csv.gz")
    morning = pd.read_csv(HERE / "nyc-weather" / "morning.csv")
    model = NeuralProcessRegressor(options.model, context="prefix", steps=options.steps, test=0.25, random_state=0)
    model.fit(weather, task="station_day", inputs="hour", outputs="temp", group="date")

    posterior = model.condition(morning)
    hours = np.arange(9, 24)
    forecast = posterior.predict(pd.DataFrame({"hour": hours}), "full")
    print(forecast[["hour", "mean", "q05", "q95", "between_std"]].round(1).to_string(index=False))
    highest = posterior.functional(lambda rest: max(morning.temp.max(), rest.max()), hours, noise=True)
    low, high = highest.interval(0.9)
    print(f"highest temperature of the day: {highest.mean:.1f} °F, between {low:.1f} and {high:.1f} with probability 0.9")

    axes = posterior.plot(np.linspace(0, 23, 93))
    axes.figure.savefig(options.out)
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()

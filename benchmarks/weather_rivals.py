"""Forecasts of the rest of a day that need no neural process, from climatology to Gaussian processes."""

import warnings

import numpy as np
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from mpnp.tables.curves import Curves

Normal = tuple[np.ndarray, np.ndarray]
"""Mean and standard deviation at each target."""


class Climatology:
    """Mean and standard deviation of each hour of the day over the training days."""

    def __init__(self, curves: Curves) -> None:
        hour, temp = curves.x[:, 0].astype(int), curves.y[:, 0]
        self.mean, self.std = (np.array([fn(temp[hour == h]) for h in range(24)]) for fn in (np.mean, np.std))

    def __call__(self, hour: np.ndarray, temp: np.ndarray, at: np.ndarray) -> Normal:
        return self.mean[at.astype(int)], self.std[at.astype(int)]


class Persistence:
    """The last anomaly, damped by lead time; damping and spread are learnt for each lead on the training days."""

    def __init__(self, climate: Climatology, curves: Curves) -> None:
        self.climate = climate
        pairs: dict[int, list[tuple[float, float]]] = {lead: [] for lead in range(1, 24)}
        for number in range(len(curves)):
            hour, temp = (values[:, 0] for values in curves.pair(number))
            anomaly = temp - climate.mean[hour.astype(int)]
            for h, a in zip(hour, anomaly, strict=True):
                for other, b in zip(hour, anomaly, strict=True):
                    if other > h:
                        pairs[int(other - h)].append((a, b))
        self.damping, self.spread = np.ones(24), np.ones(24)
        for lead, values in pairs.items():
            before, after = np.asarray(values).T
            self.damping[lead] = (before @ after) / (before @ before)
            self.spread[lead] = np.std(after - self.damping[lead] * before)

    def __call__(self, hour: np.ndarray, temp: np.ndarray, at: np.ndarray) -> Normal:
        lead = (at - hour[-1]).astype(int)
        anomaly = temp[-1] - self.climate.mean[int(hour[-1])]
        return self.climate.mean[at.astype(int)] + self.damping[lead] * anomaly, self.spread[lead]


class Covariance:
    """Mean and full covariance of the hours of a day over the training days, conditioned on the morning."""

    def __init__(self, climate: Climatology, curves: Curves) -> None:
        self.climate = climate
        days = np.full((len(curves), 24), np.nan)
        for number, day in enumerate(days):
            hour, temp = (values[:, 0] for values in curves.pair(number))
            day[hour.astype(int)] = temp - climate.mean[hour.astype(int)]
        known = ~np.isnan(days)
        filled = np.nan_to_num(days)
        covariance = filled.T @ filled / (known.T.astype(float) @ known)
        weights, vectors = np.linalg.eigh(covariance)
        self.matrix = vectors * np.maximum(weights, 1e-2) @ vectors.T

    def joint(self, hour: np.ndarray, temp: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance at the hours to forecast."""
        hours, first = np.unique(hour.astype(int), return_index=True)
        asked = at.astype(int)
        gain = np.linalg.solve(self.matrix[np.ix_(hours, hours)], self.matrix[np.ix_(hours, asked)]).T
        covariance = self.matrix[np.ix_(asked, asked)] - gain @ self.matrix[np.ix_(hours, asked)]
        return self.climate.mean[asked] + gain @ (temp[first] - self.climate.mean[hours]), covariance

    def __call__(self, hour: np.ndarray, temp: np.ndarray, at: np.ndarray) -> Normal:
        mean, covariance = self.joint(hour, temp, at)
        return mean, np.sqrt(np.diag(covariance))

    def sample(self, hour: np.ndarray, temp: np.ndarray, at: np.ndarray, *, num_draws: int, seed: int) -> np.ndarray:
        """Draws of the readings at the hours to forecast."""
        mean, covariance = self.joint(hour, temp, at)
        return np.random.default_rng(seed).multivariate_normal(mean, covariance, num_draws)


class LearntGaussianProcess:
    """Hour-of-day mean plus a Gaussian process whose hyper-parameters maximise the likelihood of all training days."""

    def __init__(self, climate: Climatology, curves: Curves) -> None:
        self.climate = climate
        days = [(x[:, 0], y[:, 0] - climate.mean[x[:, 0].astype(int)]) for x, y in map(curves.pair, range(len(curves)))]

        def loss(log_parameters: np.ndarray) -> float:
            self.parameters = np.exp(log_parameters)
            total = 0.0
            for hour, anomaly in days:
                lower = np.linalg.cholesky(self.covariance(hour, hour) + self.parameters[3] ** 2 * np.eye(len(hour)))
                white = np.linalg.solve(lower, anomaly)
                total += white @ white / 2 + np.log(np.diag(lower)).sum()
            return total / len(days)

        best = minimize(loss, np.log([15.0, 5.0, 5.0, 0.5]), method="Nelder-Mead", options={"maxiter": 250, "xatol": 1e-2})
        self.parameters = np.exp(best.x)

    def covariance(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """A constant for the day, and a Matérn-3/2 process within it."""
        offset, amplitude, length, _ = self.parameters
        distance = np.sqrt(3) * np.abs(a[:, None] - b[None]) / length
        return offset**2 + amplitude**2 * (1 + distance) * np.exp(-distance)

    def __call__(self, hour: np.ndarray, temp: np.ndarray, at: np.ndarray) -> Normal:
        noise = self.parameters[3] ** 2
        anomaly = temp - self.climate.mean[hour.astype(int)]
        gain = np.linalg.solve(self.covariance(hour, hour) + noise * np.eye(len(hour)), self.covariance(hour, at)).T
        variance = np.diag(self.covariance(at, at)) - np.einsum("ij,ji->i", gain, self.covariance(hour, at)) + noise
        return self.climate.mean[at.astype(int)] + gain @ anomaly, np.sqrt(variance)


def fitted_gaussian_process(hour: np.ndarray, temp: np.ndarray, at: np.ndarray) -> Normal:
    """A Gaussian process fitted to this morning alone by maximum likelihood, as a user of scikit-learn would."""
    kernel = ConstantKernel(1.0) * Matern(length_scale=5.0, nu=1.5) + ConstantKernel(1.0) * RBF(10.0) + WhiteKernel(0.1)
    process = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        process.fit(hour[:, None], temp)
    mean, std = process.predict(at[:, None], return_std=True)
    return mean, np.maximum(std, 1e-3)

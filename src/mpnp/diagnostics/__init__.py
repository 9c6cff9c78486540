"""Diagnostics: are a model's predictions calibrated, are its drawn functions honest, is its prediction a martingale?"""

from mpnp.diagnostics.checking import check
from mpnp.diagnostics.fit_report import fit_report
from mpnp.diagnostics.report import Report

__all__ = ["Report", "check", "fit_report"]

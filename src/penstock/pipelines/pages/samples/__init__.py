"""Catalogues made up for trying out: pages with realistic type, noise and skew, and what is printed on them."""

from penstock.pipelines.pages.samples.making import Samples, make_samples

__all__ = ["Samples", "make_samples"]

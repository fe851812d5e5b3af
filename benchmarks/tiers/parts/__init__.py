"""The measurements, a module a part of `benchmarks.tiers.plan.PARTS`."""

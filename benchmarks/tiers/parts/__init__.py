"""What is measured, a module a part of `benchmarks.tiers.plan.PARTS`."""

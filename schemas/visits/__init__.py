"""Mock DIA visits of a telescope: the survey, the tables, and what is measured of a visit.

Every 45 s an exposure asks what is known of its field, associates, and writes it all back. Figures that are said to be
of the paper are from LSST's technical note DMTN-113, "Performance of prototype of the Prompt Products Database".
"""

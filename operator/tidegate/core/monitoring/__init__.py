"""What people watch: scrape jobs, recording rules, alerts and dashboards, as frozen values.

`shell/chart/monitoring.py` writes them to files, so none of them is written by hand.
"""

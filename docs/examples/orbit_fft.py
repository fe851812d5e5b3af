"""A tab with the spectrum of an instrument's last 1,024 triggers."""

import dash_mantine_components as dmc
import numpy as np
import plotly.graph_objects as go
from dash import Input, Output

from dashboard.own_tabs import OwnTab, graph_panel, house_style, tick

GROUP, LAST = "bpm", 1024


def choice(name, label, data):
    return dmc.Select(id=name, label=label, data=data, value=data[0], searchable=True, allowDeselect=False)


async def layout(ask):
    group = await ask.group(GROUP)
    choices = [choice("fft-name", "Instrument", group.instruments), choice("fft-channel", "Channel", group.channels)]
    return [dmc.Group(choices), graph_panel("fft", "Spectrum"), tick("fft-tick", every_ms=3000)]


def callbacks(app, ask):
    @app.callback(
        Output("fft", "figure"), Input("fft-name", "value"), Input("fft-channel", "value"), Input("fft-tick", "data")
    )
    async def draw(name, channel, _):
        series = await ask.series(GROUP, name, channel, last=LAST)
        values = np.nan_to_num(series.values - np.nanmean(series.values))  # a missing reading is the mean
        window = np.hanning(LAST)
        height = 2 * np.abs(np.fft.rfft(values * window))[1:] / window.sum()
        frequency = np.fft.rfftfreq(LAST, 1 / (series.rate or 1))[1:]
        figure = go.Figure(go.Scatter(x=frequency, y=height))
        figure.update_xaxes(title="frequency in Hz" if series.rate else "frequency in 1/trigger")
        figure.update_yaxes(title=f"amplitude in {series.unit}", type="log")
        return house_style(figure)


def tab():
    return OwnTab(title="Orbit FFT", layout=layout, callbacks=callbacks)

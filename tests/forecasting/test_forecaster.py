"""`Forecaster`: laws of tables. What a table says counts, and nothing else: not its kind, not the order of its rows."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import odeprocess as odp
from odeprocess.cli.app import app
from odeprocess.forecasting.column_roles import Columns, resolve
from odeprocess.forecasting.read_table import read
from odeprocess.forecasting.transforms import NAMES, Transform, choose_transform
from table_cases import SIZES, TIMES, fitted, table, untrained

NEW = table(2)  # as many series as calibrate, so that they share what was compiled
NUMBERS = ["mean", "std", "q0.05", "q0.5", "q0.95"]


@pytest.fixture(scope="module")
def forecaster(tmp_path_factory) -> odp.Forecaster:
    """Trained on five series, for an epoch, by the command."""
    folder = tmp_path_factory.mktemp("trained")
    table().to_csv(folder / "data.csv", index=False)
    (folder / "options.toml").write_text(
        'model = "ndp-skip"\nepochs = 7\nem-epochs = 0\nheld-out = 2\nstatic = ["dose", "sex"]\nvalues = "level,speed"\n'
    )
    arguments = [folder / "data.csv", "--config", folder / "options.toml", "--epochs", 1, "--draws", 16, "--json"]
    sizes = ",".join(f"{name}={size}" for name, size in SIZES.items())
    done = CliRunner().invoke(app, ["fit", *map(str, arguments), "--sizes", sizes, "--out", str(folder / "model")])
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["choices"]["options"]["epochs"] == 1 and said["choices"]["options"]["em_epochs"] == 0
    assert "Column `id` says which series a row belongs to." in said["notes"]
    return odp.Forecaster.load(folder / "model")


@pytest.fixture(scope="module")
def guesser() -> odp.Forecaster:
    """Untrained, and for laws that hold without training."""
    return untrained()


def agree(a: pd.DataFrame, b: pd.DataFrame, rtol: float = 1e-4) -> None:
    assert list(a.columns) == list(b.columns)
    for name in a.columns:
        if name in NUMBERS:
            np.testing.assert_allclose(a[name], b[name], rtol=rtol, atol=rtol)
        else:
            assert a[name].tolist() == b[name].tolist()


def test_five_series_are_enough(forecaster):
    found = forecaster.predict(NEW, TIMES)
    assert list(found.columns) == ["id", "t", "variable", *NUMBERS]
    assert len(found) == 2 * len(TIMES) * 2 and np.isfinite(found[NUMBERS]).all(axis=None)
    assert (found["q0.05"] < found["q0.5"]).all() and (found["q0.5"] < found["q0.95"]).all() and (found["std"] > 0).all()
    assert set(forecaster.model_.calibrations) == {"exact", "amortised"}
    assert "2 of 5 series are held out, to choose and to calibrate on." in forecaster.notes_


def test_intervals_of_positive_values_stay_above_zero(forecaster):
    with pytest.warns(odp.ExtrapolationWarning, match=r"2 series \('a', 'b'\) are asked about"):
        far = forecaster.predict(NEW, [-4.0, 0.0, 4.0, 12.0], quantiles=[0.001, 0.999])
    assert (far[far["variable"] == "level"][["q0.001", "q0.999", "mean"]] > 0).all(axis=None)
    sample_latents = forecaster.sample(NEW, TIMES, 16)
    assert (sample_latents[sample_latents["variable"] == "level"]["value"] > 0).all()
    assert (sample_latents[sample_latents["variable"] == "speed"]["value"] < 0).any()


def test_the_order_of_rows_does_not_matter(forecaster):
    shuffled = table().sample(frac=1.0, random_state=1)
    again = fitted(shuffled)
    expected = forecaster.predict(NEW, TIMES).sort_values(["id", "t", "variable"], ignore_index=True)
    found = again.predict(shuffled[shuffled["id"].isin(["a", "b"])], TIMES).sort_values(
        ["id", "t", "variable"], ignore_index=True
    )
    pd.testing.assert_frame_equal(found, expected)


def test_units_and_the_beginning_of_time_do_not_matter(forecaster):
    other = table()
    other["level"], other["speed"], other["t"] = 1000 * other["level"], 5 + 8 * other["speed"], 60 * (other["t"] + 1e6)
    found, expected = fitted(other).predict(other.head(12), [60 * t for t in TIMES]), forecaster.predict(NEW, TIMES)
    level, speed = expected["variable"] == "level", expected["variable"] == "speed"
    np.testing.assert_allclose(found[level][NUMBERS], 1000 * expected[level][NUMBERS], rtol=0.01)
    np.testing.assert_allclose(found[speed]["std"], 8 * expected[speed]["std"], rtol=0.01)
    np.testing.assert_allclose(found[speed]["q0.95"], 5 + 8 * expected[speed]["q0.95"], rtol=0.01)
    np.testing.assert_allclose(found["t"], 60 * (expected["t"] + 1e6), rtol=1e-12)


def test_a_loaded_forecaster_predicts_the_same_bit_by_bit(forecaster, tmp_path):
    forecaster.save(tmp_path / "model")
    loaded = odp.Forecaster.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.predict(NEW, TIMES), forecaster.predict(NEW, TIMES), check_exact=True)
    assert loaded.get_params() == forecaster.get_params() and loaded.layout_ == forecaster.layout_
    assert sorted(p.suffix for p in (tmp_path / "model").iterdir()) == [".json", ".safetensors"]
    loaded.save(tmp_path / "again")
    cards = [json.loads((tmp_path / name / "model.json").read_text()) for name in ("model", "again")]
    assert cards[0] == cards[1]


def test_a_forecaster_of_a_spec_is_saved_with_it(guesser, tmp_path):
    spec = odp.variant("ndp-skip", **SIZES)
    options = {**guesser.get_params(), "model": spec}
    copy = odp.Forecaster(**options)
    copy.model_, copy.layout_, copy.choices_, copy.notes_ = guesser.model_, guesser.layout_, {}, []
    copy.save(tmp_path / "model")
    assert odp.Forecaster.load(tmp_path / "model").get_params() == options


def test_a_series_has_the_draws_of_a_stream_and_of_the_model_itself(forecaster):
    """Tables, streams and `Model.condition` give the same series the same answer."""
    (t, y), model = forecaster.posterior(NEW)["b"].observations, forecaster.model_
    static = forecaster._read(NEW).static[1]
    alone = model.condition(t, y, key=odp.series_key("b"), static=static, draws=16)
    stream = odp.Stream(model, draws=16)
    stream.open("b", static=static, origin=0.0 if model.scaling.origin == "first" else None)
    stream.observe("b", t, y)
    expected = forecaster.posterior(NEW)["b"]
    assert expected.inference == alone.inference == stream.posterior("b").inference == "exact"
    for other in (alone, stream.posterior("b")):
        np.testing.assert_allclose(other.mean(TIMES), expected.mean(TIMES), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(other.interval(TIMES), expected.interval(TIMES), rtol=1e-4, atol=1e-5)


def test_scores_are_those_of_the_predictions(forecaster):
    found = forecaster.evaluate(NEW, 3, "forecast")
    assert found["values"].sum() == NEW.groupby("id").tail(3)[["level", "speed"]].notna().sum().sum()
    first = NEW.groupby("id").head(3)
    predicted = forecaster.predict(first, NEW[["id", "t"]])
    whole = NEW.melt(["id", "t"], ["level", "speed"], "variable", "y").merge(predicted, on=["id", "t", "variable"])
    later = whole[~whole["t"].isin(first["t"])].dropna()
    for name, rows in later.groupby("variable"):
        score = found[found["variable"] == name].iloc[0]
        assert score["mse"] == pytest.approx(((rows["y"] - rows["mean"]) ** 2).mean(), rel=1e-3)
        assert score["mae"] == pytest.approx((rows["y"] - rows["q0.5"]).abs().mean(), rel=1e-3)
        assert score["coverage"] == pytest.approx(rows["y"].between(rows["q0.05"], rows["q0.95"]).mean())
    by_series = forecaster.evaluate(NEW, 3, by="series")
    assert len(by_series) == 4 and by_series["values"].sum() > found["values"].sum()


def test_posteriors_by_name_and_what_they_have_seen(guesser):
    found = guesser.posterior(table(2))
    assert list(found) == ["a", "b"]
    t, y = found["b"].observations
    assert np.isfinite(y).any(-1).sum() == 6 and t[np.isfinite(y).any(-1)].min() == 0.0
    mean = guesser.predict(table(2), [2.0]).query("variable == 'speed'")["mean"]
    np.testing.assert_allclose([p.mean([2.0])[0, 1] for p in found.values()], mean, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "kind", [pl.from_pandas, lambda t: pa.Table.from_pandas(t, preserve_index=False)], ids=["polars", "pyarrow"]
)
def test_kinds_of_table_agree_and_come_back(guesser, kind):
    came = kind(table())
    found = guesser.predict(came, TIMES)
    assert type(found) is type(came)
    frame = found.to_pandas()
    agree(frame, guesser.predict(table(), TIMES), rtol=0.0)
    assert type(guesser.evaluate(came, 2, "forecast")) is type(came)


@pytest.mark.parametrize("name", ["data.csv", "data.csv.gz", "data.tsv", "data.parquet"])
def test_files_are_read_and_say_the_same(guesser, tmp_path, name):
    if name.endswith("parquet"):
        table().to_parquet(tmp_path / name)
    else:
        table().to_csv(tmp_path / name, index=False, sep="\t" if name.endswith("tsv") else ",")
    agree(guesser.predict(tmp_path / name, TIMES), guesser.predict(table(), TIMES), rtol=1e-9)


def test_a_series_is_predicted_alike_in_any_company(guesser):
    whole = guesser.predict(table(), TIMES)
    for ids in (["b"], ["d", "a"]):
        part = guesser.predict(table()[table()["id"].isin(ids)], TIMES)
        agree(part, whole[whole["id"].isin(ids)].reset_index(drop=True))


def test_long_and_short_series_go_together(guesser):
    rng = np.random.default_rng(0)
    long = pd.DataFrame({"id": "z", "t": rng.permutation(300) / 40, "level": 1.0, "speed": 0.0, "dose": 1.0, "sex": "f"})
    found = guesser.predict(pd.concat([table(), long]), TIMES)
    agree(found[found["id"] != "z"].reset_index(drop=True), guesser.predict(table(), TIMES))


def test_a_missing_channel_says_nothing_and_an_empty_row_only_when_time_begins(guesser):
    holes = table(2)
    holes.loc[holes["id"] == "a", "speed"] = np.nan
    dropped = holes.copy()
    gone = dropped[["level", "speed"]].isna().all(axis=1)
    agree(guesser.predict(dropped[~gone], TIMES), guesser.predict(holes, TIMES))
    nothing = table(1).assign(level=np.nan, speed=np.nan)
    assert np.isfinite(guesser.predict(nothing.head(1), TIMES)[NUMBERS]).all(axis=None)


def test_each_series_may_be_asked_about_its_own_times(guesser):
    asked = pd.DataFrame({"id": ["b", "a", "b"], "t": [9.0, 2.0, 4.0]})
    found = guesser.predict(table(2), asked)
    assert found[["id", "t"]].drop_duplicates().to_numpy().tolist() == [["a", 2.0], ["b", 9.0], ["b", 4.0]]
    start = table(2).groupby("id")["t"].min()
    alone = guesser.predict(table(2).query("id == 'a'"), [2.0 - start["a"]])
    agree(found.query("id == 'a'").reset_index(drop=True).drop(columns="t"), alone.drop(columns="t"))


def dated(zone: str | None = None) -> pd.DataFrame:
    return table().assign(t=pd.Timestamp("2026-03-01", tz=zone) + pd.to_timedelta(table()["t"].round(3), unit="D"))


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Paris"])
def test_dates_are_times_like_others(guesser, zone):
    found = untrained(dated(zone)).predict(dated(zone), TIMES)
    expected = guesser.predict(table(), TIMES)
    np.testing.assert_allclose(found[NUMBERS], expected[NUMBERS], rtol=1e-4, atol=1e-5)
    days = (found["t"] - pd.Timestamp("2026-03-01", tz=zone)) / pd.Timedelta("1D")
    np.testing.assert_allclose(days, expected["t"], atol=1e-6)


@pytest.mark.parametrize("origin", ["begun", "absolute"])
def test_time_counts_from_where_the_user_says(origin):
    data = table().assign(begun=1.0)
    counted = untrained(data, origin=origin)
    moved = data.assign(t=data["t"] + 5.0, begun=6.0)
    shift = 0.0 if origin == "begun" else 5.0
    found = counted.predict(moved, [t + shift for t in TIMES])
    expected = counted.predict(data, TIMES)
    if origin == "begun":
        np.testing.assert_allclose(found["t"], expected["t"] + 5.0)
        agree(found.drop(columns="t"), expected.drop(columns="t"))
    else:
        assert not np.allclose(found["mean"], expected["mean"])
        np.testing.assert_allclose(found["t"], expected["t"] + 5.0)


def test_columns_are_guessed_where_that_is_obvious():
    columns, said = resolve(read(table(2)), None, None, None, None, "first")
    assert columns == Columns("id", "t", ("level", "speed"), ("dose", "sex"), "first")
    assert said == [
        "Column `id` says which series a row belongs to.",
        "Column `t` is the time.",
        "The values are `level`, `speed`.",
        "`dose`, `sex` never change within a series: static covariates.",
    ]


def test_held_out_series_end_training_where_they_are_told_to():
    # A rate this high soon makes things worse.
    options = {"epochs": 40, "em_epochs": 0, "patience": 2, "learning_rate": 0.3}
    watched = fitted(table(), options=options)
    info = watched.model_.info
    assert info["epochs"] < 40 and info["epoch"] == info["epochs"] - 2
    assert any("fewer, when 2 of them do not improve held-out series" in note for note in watched.notes_)
    with pytest.raises(ValueError, match=r"no series is held out .*Pass `held_out` as well"):
        fitted(table(), held_out=0, options={"patience": 2})


def test_it_has_the_manners_of_an_estimator(forecaster):
    from sklearn.base import clone

    copy = clone(forecaster)
    assert copy is not forecaster and copy.get_params() == forecaster.get_params() and not hasattr(copy, "model_")
    assert copy.set_params(seed=3) is copy and copy.seed == 3
    assert repr(clone(odp.Forecaster(draws=8))) == "Forecaster(draws=8)"
    with pytest.raises(ValueError, match="Unknown option"):
        copy.set_params(nonsense=1)
    with pytest.raises(ValueError, match="has not been fitted yet"):
        copy.predict(table())


@pytest.mark.parametrize("name", NAMES)
def test_transforms_go_there_and_back_with_their_densities_and_moments(name):
    rng = np.random.default_rng(0)
    transform = Transform(name, 2.0)
    y = np.exp(rng.normal(0, 1, 50))
    np.testing.assert_allclose(transform.inverse(transform.forward(y)), y)
    step = 1e-6 * y
    slope = (transform.forward(y + step) - transform.forward(y - step)) / (2 * step)
    np.testing.assert_allclose(transform.log_slope(y), np.log(slope), atol=1e-6)
    loc, scale = rng.normal(1, 0.3, (8, 1)), np.full((8, 1), 0.2)
    draws = transform.inverse(loc + scale * rng.standard_normal((8, 200_000)))
    mean, std = transform.moments(loc, scale)
    np.testing.assert_allclose([mean[0], std[0]], [draws.mean(), draws.std()], rtol=0.01)


def test_transforms_are_chosen_from_the_data():
    chosen = {
        "identity": [-1.0, 2.0, 3.0],
        "log": [0.5, 2.0, 30.0],
        "log1p": [0.0, 0.7, 3.2],
    }
    for name, values in chosen.items():
        assert choose_transform(np.array([*values, np.nan]))[0].name == name
    assert choose_transform(np.array([0.0, 3.0, 17.0]))[0] == Transform("log1p", 1.0)
    assert choose_transform(np.array([1e-4, 10.0, 12.0]))[0].name == "log1p"


def test_a_picture_of_every_series(guesser, tmp_path):
    import matplotlib

    matplotlib.use("Agg")
    figure = guesser.plot(table(2), path=tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000
    assert [ax.get_title() for ax in figure.axes] == ["a", "b", "a", "b"]
    matplotlib.pyplot.close(figure)

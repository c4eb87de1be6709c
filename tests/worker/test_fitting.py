"""What a child says is brought within the bounds of reports (RD-02)."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler.codec.reports import decode_report, encode_report
from scheduler.core import bounds
from scheduler.core.job import ErrorInfo
from scheduler.core.reports import Emit, Verdict
from scheduler.worker.actions import Failed, Snoozed, Succeeded
from scheduler.worker.fitting import cut, fitted, fitted_error
from tests.worker.play import Play

TEXT = st.text(max_size=3_000) | st.text(alphabet="😀é\n\x00a\ud800", max_size=3_000)


@given(TEXT, st.integers(0, 3_000))
def test_a_text_is_cut_at_a_character_boundary(text, longest):
    short = cut(text, longest)
    assert len(short.encode()) <= longest
    replaced = text.encode(errors="replace").decode()
    assert replaced.startswith(short)
    if len(replaced.encode()) <= longest:
        assert short == replaced


@given(TEXT, TEXT, st.lists(TEXT, max_size=20))
def test_an_error_fits_and_keeps_its_innermost_frames(kind, message, frames):
    error = fitted_error(ErrorInfo(kind, message, tuple(frames)))
    size = (
        len(error.error_class.encode())
        + len(error.message.encode())
        + sum(len(f.encode()) for f in error.frames)
    )
    assert size <= bounds.ERROR_MAX_BYTES
    assert len(error.frames) == min(len(frames), bounds.ERROR_FRAMES_MAX)
    if frames and len(frames[-1].encode(errors="replace")) <= bounds.FRAME_MAX_BYTES:
        assert error.frames[-1] == frames[-1].encode(errors="replace").decode()


@given(TEXT, TEXT, st.lists(TEXT, max_size=20), st.integers(-(10**15), 10**15))
def test_every_failure_can_be_encoded_and_read_back(kind, message, frames, delay):
    play = Play()
    error = ErrorInfo(kind, message, tuple(frames))
    play.finish(play.lease(), Failed(Verdict.RETRY, error, delay))
    (fail,) = play.ends()
    assert decode_report(encode_report(fail)) == fail


def test_the_worst_error_of_all_fits():
    """A megabyte of text with characters to be cut, newlines, and a deep stack."""
    error = fitted_error(
        ErrorInfo("m." * 1_000 + "E", "😀\n" * 200_000, tuple(f"f{n}.py:1:g" for n in range(1_000)))
    )
    assert error.frames[-1] == "f999.py:1:g"
    assert len(error.message) > 100


def test_a_result_at_the_bound_stays_and_above_it_goes():
    assert fitted(Succeeded(b"x" * bounds.RESULT_MAX_BYTES)).result
    above = fitted(Succeeded(b"x" * (bounds.RESULT_MAX_BYTES + 1)))
    assert (above.result, above.omitted) == (b"", "65537 bytes are above 65536")


def test_emits_beyond_the_bounds_fail_the_job():
    assert isinstance(fitted(Succeeded(emits=(Emit("t", b"", b""),) * 101)), Failed)
    assert isinstance(fitted(Succeeded(emits=(Emit("t", b"", b"x" * bounds.EMITS_MAX_BYTES),))), Failed)
    assert isinstance(fitted(Succeeded(emits=(Emit("t" * 250, b"", b""),))), Failed)
    assert isinstance(fitted(Succeeded(emits=(Emit("t", b"", b"x"),) * 100)), Succeeded)


def test_delays_are_bounded():
    assert fitted(Snoozed(-5)) == Snoozed(0)
    assert fitted(Snoozed(10**18)) == Snoozed(bounds.DELAY_MAX_MS)
    assert fitted(Failed(Verdict.RETRY, retry_after_ms=10**18)).retry_after_ms == bounds.DELAY_MAX_MS

"""Text files, unpacked, decoded, and cut into rows: CSV (comma, semicolon, bar, tab), svmlight."""

from __future__ import annotations

import bz2
import codecs
import csv
import errno
import gzip
import io
import lzma
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from marda._array_files import overstates
from marda._machine import available_memory, counted, format_bytes
from marda.io.table import (
    MISSING_WORDS,
    WHOLE,
    InputError,
    ReadRequest,
    Table,
    check_width,
    some_names,
)

CSV_ROWS = 50_000  # fields are Python strings while they are read: a batch bounds their memory
BATCH_CHARACTERS = 2**23  # and so does this where rows are wide
#: Longest row of text, in characters, and most columns: a file that unpacks to one endless line is
#: refused as it grows, not when memory is gone.
MAX_ROW = 2**25
MAX_COLUMNS = 2**20
#: Bytes of a field as Python string beside its characters, and of an index and a value of svmlight.
FIELD_BYTES, PAIR_BYTES = 64, 72
LABEL = "label"  # name of svmlight's first field
CLOSING_LINES = 20  # most lines of remarks below the last row
#: What a row of totals begins with.
TOTAL = re.compile(
    r"((grand |sub-?|overall )?totals?|totale|sums?|(end|gesamt)?summe|gesamt|insgesamt|summa|somme"
    r"|suma|averages?|means?|mittelwert|durchschnitt|moyenne|итого|всего|合計|总计|합계)\s*:?",
    re.IGNORECASE,
)
TOTAL_STARTS = frozenset(("", *" \tAaDdEeGgIiMmOoSsTtИиВв合总합"))
#: What the separator, the header and the encoding are found out from.
HEAD_LINES, HEAD_CHARACTERS, SCANNED = 50, 2**20, 2**24
LONGEST_UNIT = 12
GUARDED = re.compile(r'\s*="([^"]*)"\s*')
#: So many known units in one line are no values, whatever else the line holds.
SURELY_UNITS = 3
UNITS = {
    *("g", "kg", "mg", "µg", "t", "m", "cm", "mm", "km", "s", "ms", "min", "h", "l", "ml", "dl"),
    *("hz", "khz", "mhz", "w", "kw", "kwh", "v", "mv", "a", "ma", "j", "kj", "kcal", "pa", "hpa"),
    *("kpa", "bar", "mbar", "mmhg", "mol", "mmol", "bpm", "db", "lx", "ppm", "eur", "usd", "gbp"),
}

# Packed files: gzip, bzip2, xz, zstandard, a zip archive of one file ------------------------------

# Streams are read piece by piece, so that what a file unpacks to is counted as it grows. What it
# declares (the size of a zip's member, the memory that xz needs) is compared with the memory there
# is before any is taken.

PACKED_SUFFIXES = (".gz", ".bz2", ".xz", ".zst", ".zip")
_BZIP2 = re.compile(rb"BZh[1-9]1AY&SY")
_CHUNK, _PIECE = 2**16, 2**10
#: What programs put beside the one file that a person packed.
_CLUTTER = re.compile(r"(^|/)(__MACOSX/|\.DS_Store$|Thumbs\.db$|desktop\.ini$)|/$")


def packing(path: Path) -> str | None:
    """How a file is packed, by its first bytes."""
    with path.open("rb") as file:
        return packing_of(file.read(10))


def packing_of(start: bytes) -> str | None:
    """How bytes are packed, by the first ones."""
    if _BZIP2.match(start):
        return "bzip2"
    for magic, name in (
        (b"\x1f\x8b", "gzip"),
        (b"\xfd7zXZ\0", "xz"),
        (b"\x28\xb5\x2f\xfd", "zstandard"),
        (b"PK\x03\x04", "zip"),
    ):
        if start.startswith(magic):
            return name
    return None


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Errors of damaged or packed bytes as one sentence."""
    try:
        yield
    except InputError:
        raise
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not {error.encoding} text throughout: name its encoding with --encoding "
            "(such as cp1252), or its format with --format."
        ) from None
    except (
        *(csv.Error, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile),
        *(NotImplementedError, RuntimeError, OSError, ValueError),
    ) as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise  # no such file, no permission
        why = " ".join(str(error).split())[:120].rstrip(".") or type(error).__name__
        raise InputError(f"{path} cannot be read as {what}: {why}.") from None


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked."""
    kind = packing(path)
    with ExitStack() as stack:
        if kind == "zip":
            file: Any = _open_member(path)
        elif kind == "gzip":
            file = gzip.GzipFile(path, "rb")
        elif kind == "bzip2":
            file = bz2.BZ2File(path, "rb")
        elif kind in ("xz", "zstandard"):
            raw = stack.enter_context(path.open("rb"))
            file = io.BufferedReader(_Unpacked(path, raw, _decompressor(path, kind)), _CHUNK)
        else:
            file = path.open("rb")
        yield stack.enter_context(file)


def head_of(path: Path, n: int) -> bytes:
    """The first bytes, unpacked."""
    with reading(path, packing(path) or "text"), open_bytes(path) as file:
        return file.read(n)


def unpacked_size(path: Path, most: int) -> int:
    """Bytes of a file, unpacked; where they are more than `most`, some number above it.

    They are counted as they come, since what gzip says of its size ends at 4 GB. A member of a zip
    archive is read as far as its declared size, which is taken.
    """
    kind, size = packing(path), 0
    try:
        with reading(path, kind or "text"):
            if kind == "zip":
                with zipfile.ZipFile(path) as archive:
                    return sum(member.file_size for member in archive.infolist())
            if kind is not None:
                with open_bytes(path) as file:
                    while size <= most and (piece := file.read(_CHUNK)):
                        size += len(piece)
                return size
    except InputError:
        pass  # its reader says what is wrong
    return path.stat().st_size


def archive_members(path: Path) -> list[str]:
    """Names of the files of a zip archive, without what programs add."""
    with reading(path, "zip"), zipfile.ZipFile(path) as archive:
        return [name for name in archive.namelist() if not _CLUTTER.search(name)]


def only_member(path: Path) -> str:
    """The name of the one file of a zip archive; several are refused."""
    names = archive_members(path)
    if len(names) != 1:
        raise InputError(
            f"{path} is a zip archive of {len(names)} files ({some_names(names, 3)}): unpack it "
            "and give the file with the rows."
        )
    return names[0]


@contextmanager
def _open_member(path: Path) -> Iterator[IO[bytes]]:
    name = only_member(path)
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo(name)
        if member.flag_bits & 1:
            raise InputError(f"{path} is encrypted: unpack it and give the file inside.")
        if overstates(member, path.stat().st_size):
            raise InputError(f"{path}: {name!r} declares more bytes than the file can hold.")
        with archive.open(member) as file:
            yield file


class _Unpacked(io.RawIOBase):
    """Bytes of one stream or several behind each other, unpacked in small pieces.

    A thousand bytes of xz or zstandard hold at most some ten megabytes.
    """

    def __init__(self, path: Path, file: IO[bytes], decompressor: Callable[[], Any]):
        self._path, self._file, self._make = path, file, decompressor
        self._one = decompressor()
        self._held = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._held:
            packed = self._one.unused_data if self._one.eof else b""
            packed = packed or self._file.read(_PIECE)
            if self._one.eof:
                packed = packed.lstrip(b"\0") or self._file.read(_PIECE)
                if not packed:
                    return 0
                self._one = self._make()
            elif not packed:
                raise EOFError("it ends early")
            try:
                self._held = memoryview(self._one.decompress(packed))
            except Exception as error:  # every library has a class of errors of its own
                if "emory" not in str(error):
                    raise zlib.error(str(error)) from None
                raise InputError(
                    f"{self._path} needs more memory to unpack than there is, "
                    f"{format_bytes(available_memory())}: raise MARDA_MEMORY, or unpack it."
                ) from None
        n = min(len(buffer), len(self._held))
        buffer[:n] = self._held[:n]
        self._held = self._held[n:]
        return n


def _decompressor(path: Path, kind: str) -> Callable[[], Any]:
    """What makes a decompressor with a limit of memory."""
    limit = max(2**20, available_memory())
    if kind == "xz":
        return lambda: lzma.LZMADecompressor(memlimit=limit)
    window = max(10, min(31, limit.bit_length() - 1))  # zstandard counts in powers of two
    try:
        new = import_module("compression.zstd")
        options = {new.DecompressionParameter.window_log_max: window}
        return lambda: new.ZstdDecompressor(options=options)
    except ImportError:
        pass
    try:
        other = import_module("zstandard")
    except ImportError:
        raise InputError(
            f"{path} is packed with zstandard, which needs a library: run pip install zstandard, "
            "or unpack the file."
        ) from None
    return lambda: other.ZstdDecompressor(max_window_size=2**window).decompressobj()


# Encodings ---------------------------------------------------------------------------------------

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_OTHERS = (
    *("cp1250", "cp1251", "cp1253", "shift_jis", "gb18030", "big5", "euc_kr", "koi8_r"),
    *("mac_roman", "cp850"),
)


def _encoding(path: Path, wish: str | None) -> tuple[str, tuple[str, ...]]:
    """The encoding of a file, and a note where it is a guess."""
    if wish is not None:
        try:
            wish = codecs.lookup(wish).name
            "a".encode(wish)
        except LookupError:
            raise InputError(
                f"--encoding {wish}: there is no such encoding; utf-8, utf-16, cp1252, cp1251 and "
                "shift_jis are some."
            ) from None
    with reading(path, "text"), open_bytes(path) as file:
        start = file.read(4)
        mark = next((name for mark, name in _MARKS if start.startswith(mark)), None)
        if mark is not None:
            if wish is not None and wish.split("-")[:2] != mark.split("-")[:2]:
                raise InputError(
                    f"{path} begins with the mark of {mark.removesuffix('-sig').upper()}, and "
                    f"--encoding says {wish}: leave it out, or name one per file, as in "
                    "--encoding utf-8,cp1252."
                )
            return mark, ()
        decoder, plain, done, seen = codecs.getincrementaldecoder("utf-8")(), True, 0, start
        valid = True
        for piece in chain([start], iter(lambda: file.read(2**20), b"")):
            seen, done, plain = piece, done + len(piece), plain and piece.isascii()
            try:
                decoder.decode(piece)
            except UnicodeDecodeError:
                valid = False
                seen = piece + file.read(2**20)
                break
            if b"\0" in piece or done > SCANNED:
                break
        if valid and done <= SCANNED:
            try:
                decoder.decode(b"", final=True)
            except UnicodeDecodeError:
                valid = False
    if wish is not None:
        if valid and not plain and not wish.startswith("utf"):
            raise InputError(
                f"{path} is UTF-8, and --encoding says {wish}: with files of several encodings "
                "name one per file, as in --encoding utf-8,cp1252."
            )
        return wish, ()
    if b"\0" in seen:
        raise InputError(
            f"{path} is not text, or UTF-16 without its mark: name its encoding with --encoding "
            "utf-16-le, or its format with --format."
        )
    if valid:
        return "utf-8", ()
    if _is_western(seen):
        return "cp1252", (
            f"{path} is not UTF-8 and is read as Windows-1252: --encoding names another.",
        )
    fits = [name for name in _OTHERS if _decodes(seen, name)]
    raise InputError(
        f"{path} is not UTF-8 text, nor does it look like Windows-1252: name its encoding with "
        f"--encoding ({', '.join(fits) or 'none of the usual ones fits'})."
    )


#: Two to four accents in a row beside a plain letter of the same case: ação, créée, pää, AÇÃO.
_ACCENTS = re.compile(
    r"(?<=[a-z])[à-öø-ÿœ]{2,4}(?![^\x00-\x7f])|(?<![^\x00-\x7f])[à-öø-ÿœ]{2,4}(?=[a-z])"
    r"|(?<=[A-Z])[À-ÖØ-ÝŒ]{2,4}(?![^\x00-\x7f])|(?<![^\x00-\x7f])[À-ÖØ-ÝŒ]{2,4}(?=[A-Z])"
)


def _is_western(data: bytes) -> bool:
    """Whether bytes above 127 stand within words, as accents do, and are letters there."""
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        return False
    pairs = len(re.findall(rb"[\xc3-\xf4][\x80-\xbf]", data))
    if pairs > len(re.findall(rb"[\x80-\xff]", data)) / 3:
        return False  # UTF-8 with damage
    high = re.findall(r"[^\x00-\x7f]+", text)
    joined = sum(len(run) for run in high if len(run) > 1)
    joined -= sum(map(len, _ACCENTS.findall(text)))
    inside = len(re.findall(r"[a-zA-Z][\xa1-\xbf\xd7\xf7‚-‰‹›•™](?=[a-z])", text))
    inside += len(re.findall(r"[a-z][À-ÖØ-ÞŠŒŽŸ]+(?=[a-z])", text))
    total = sum(map(len, high))
    return joined <= total / 2 and inside <= total / 20


def _decodes(data: bytes, name: str) -> bool:
    try:
        codecs.getincrementaldecoder(name)().decode(data)  # the last character may be cut
    except UnicodeDecodeError:
        return False
    return True


@contextmanager
def open_text(path: Path, encoding: str | None, what: str) -> Iterator[tuple[IO[str], Any]]:
    """A file as text, and notes on its encoding."""
    name, notes = _encoding(path, encoding)
    with (
        reading(path, what),
        open_bytes(path) as raw,
        io.TextIOWrapper(raw, encoding=name, newline="") as file,
    ):
        yield file, notes


def first_line(path: Path) -> str:
    """The first line that is not a comment."""
    with reading(path, "text"), open_bytes(path) as file:
        for _ in range(100):
            line = file.readline(100_000)
            text = line.decode("utf-8", "replace").strip()
            if text and not text.startswith("#"):
                return text
    return ""


class Lines:
    """Lines of a text, each and together bounded.

    `row` counts the characters of a row so far (the reader sets it back), `total` those of all
    rows. `keep` counts what rows take that are kept, and refuses them as they grow too many.
    """

    def __init__(self, path: Path, file: Any, keeps_all: bool):
        self.path, self.file, self.keeps_all = path, file, keeps_all
        self.row = self.total = self.fields = 0
        self.room = available_memory()

    def __iter__(self) -> Iterator[Any]:
        while line := self.file.readline(MAX_ROW + 1):
            self.row += len(line)
            self.total += len(line)
            if self.row > MAX_ROW:
                raise InputError(
                    f"{self.path} has a row of more than {MAX_ROW:,} characters: is it a table?"
                )
            if isinstance(line, str) and "\0" in line:
                raise InputError(
                    f"{self.path} holds NUL bytes, as damaged files and other formats do: copy it "
                    "again, or name its format with --format."
                )
            yield line

    def keep(self, cost: int) -> None:
        """Count `cost` bytes more beside the characters read so far."""
        self.fields += cost
        if self.keeps_all and self.total + self.fields > self.room:
            raise InputError(
                f"{self.path} takes more memory than there is, {format_bytes(self.room)}: raise "
                "MARDA_MEMORY, take fewer rows, or use Parquet, which is streamed."
            )


# CSV ---------------------------------------------------------------------------------------------


def name_columns(header: Sequence[str]) -> tuple[list[str], frozenset[str], dict[str, str]]:
    """Names of columns, those that the file has no name for, and those that are there twice."""
    taken = {name.strip() for name in header}
    names, nameless = [], set()
    for k, raw in enumerate(header, 1):
        name = raw.strip()
        if not name:
            name = f"column{k}"
            while name in taken:
                name += "_"
            taken.add(name)
        if not raw.strip() or re.fullmatch(r"Unnamed: \d+", name):
            nameless.add(name)
        names.append(name)
    counts = Counter(names)
    twice = {name: f"is there {_times(n)}" for name, n in counts.items() if n > 1}
    return names, frozenset(nameless), twice


def _times(n: int) -> str:
    return "twice" if n == 2 else f"{n} times"


def _layout(head: Sequence[str]) -> tuple[str, int]:
    """The separator, and how many lines stand above the header."""
    if found := re.fullmatch(r"\"?sep=(.)\"?\s*", head[0]):
        return found[1], 1
    bare = "".join("".join(head).split('"')[::2]).splitlines()
    bare = bare[:-1] if len(bare) > 3 else bare  # the last may be cut
    lines = [line for line in bare if line.strip()]
    best: tuple[float, int, str, int] = (0.0, 0, ",", 0)
    for mark in ",;\t|":
        counts = [line.count(mark) for line in lines]
        usual, n = Counter(c for c in counts if c).most_common(1)[0] if any(counts) else (0, 0)
        first = next((c for c in counts if c), 0)
        best = max(best, (n / max(1, len(lines)), first, mark, usual))
    _, _, mark, usual = best
    above = 0
    for at, line in enumerate(head):
        count = "".join(line.split('"')[::2]).count(mark)
        follows = head[at + 1].strip() if at + 1 < len(head) else "x"
        comment = line.startswith("#") and count != usual
        title = usual and not count and (usual > 1 or not follows)
        padded = count == usual > 1 and is_title(
            _fields(line, mark), (_fields(other, mark) for other in head[at + 1 :])
        )
        if not (comment or title or padded or not line.strip()):
            break
        above = at + 1
    return mark, above if above < len(head) else 0


def is_title(fields: Sequence[str], below: Iterable[Sequence[str]]) -> bool:
    """Whether a line is a title with separators behind it, as spreadsheets write one.

    Most of its fields are empty, and a line of names stands below: no two alike, and no numbers.
    """
    filled = sum(map(bool, fields))
    if filled > max(1, len(fields) // 2):
        return False
    lines = [names for names in below if any(names)]
    for names, data in pairwise([*lines, list[str]()]):
        if sum(map(bool, names)) > max(1, len(fields) // 3, filled):
            # More than a third are groups of columns only where numbers follow the names.
            if filled > max(1, len(fields) // 3) and not any(map(_is_number, filter(None, data))):
                return False
            # Of the first, row names have none.
            return (
                all(names[1:]) and len({*names}) == len(names) and not any(map(_is_number, names))
            )
    return False


def _fields(line: str, mark: str) -> list[str]:
    """Fields of one line, without their outer spaces."""
    return [field.strip() for field in next(csv.reader([line], delimiter=mark), [])]


def _is_number(field: str) -> bool:
    return re.fullmatch(r"[-+\d.,%\s]+", field) is not None


def _is_data(header: Sequence[str]) -> bool:
    """Whether the first line is no header: numbers of which some are fractions or there twice.

    Names may be numbers (years, wavelengths), but then they increase, or are whole and different.
    """
    numbers = []
    for name in header:
        try:
            numbers.append(float(name))
        except ValueError:
            continue
    if len(numbers) < max(1, len(header) / 2):
        return False
    increasing = len(numbers) > 2 and all(np.diff(numbers) > 0)
    whole = all(n == n // 1 for n in numbers) and len(set(numbers)) == len(numbers)
    return not increasing and not whole


def _units(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """What stands under the header and above numbers, in a line that holds no value: kg, cm.

    Above words it may name what these can be (m/f). Where three units are known ones, no words are
    asked what they mean.
    """
    filled = [
        (unit.strip(), below.strip())
        for unit, below in zip(first, second, strict=False)
        if unit.strip().lower() not in MISSING_WORDS
    ]
    numbers = [unit for unit, below in filled if _is_number(below)]
    units = [
        unit for unit in numbers if len(unit) <= LONGEST_UNIT and not re.search(r"\d{2}|^\d", unit)
    ]
    known = [unit for unit in units if _is_unit(unit)]
    words = [(unit, below) for unit, below in filled if not _is_number(below)]
    named = len(known) >= SURELY_UNITS or all(
        below in re.split(r"\s*[/|,;]\s*", unit) and below != unit for unit, below in words
    )
    if len(units) < len(numbers) or len(filled) < 2 or (words and not known):
        return []
    return units if named else []


def _is_unit(text: str) -> bool:
    """Whether it is a unit that many use, a ratio of two, or has a sign that only units have."""
    return text.lower() in UNITS or re.search(r"[°%²³µ]|\w/\w", text) is not None


def _names_again(rows: Sequence[Sequence[str]]) -> int:
    """How many lines under the header are names too: questions of a survey, marks of its export.

    A line of questions has no value, no field twice, words above two columns of values or more, and
    in every field a question or several words: a row of single words is refused, not left out.
    """
    marks = [field for field in rows[1] if field] if len(rows) > 1 else []
    if marks and all(field.startswith('{"ImportId"') for field in marks):
        return 2  # as Qualtrics writes them
    first, *below = [[field.strip() for field in row] for row in rows]
    if len(below) < 2 or len({*map(len, (first, *below))}) > 1 or any(map(_is_value, first)):
        return 0
    above_values = [
        name for name, *values in zip(first, *below, strict=True) if all(map(_is_value, values))
    ]
    named = all(name.lower() not in MISSING_WORDS for name in above_values)
    filled = [name for name in first if name]
    asked = any(name.endswith("?") for name in filled)
    asked &= all(name.endswith("?") or " " in name for name in filled)
    return int(asked and len(above_values) > 1 and named and len({*filled}) == len(filled))


def _unguarded(fields: Sequence[str]) -> list[str]:
    """Fields that were written as formulas, so that a spreadsheet leaves them alone: ="0012"."""
    return [found[1] if (found := GUARDED.fullmatch(field)) else field for field in fields]


def _is_rule(fields: Sequence[str]) -> bool:
    """Whether a line under the header underlines it, as databases and Markdown draw one."""
    filled = [field.strip() for field in fields if field.strip()]
    drawn = all(re.fullmatch(r":?[-=]+:?", field) for field in filled)
    return drawn and any(len(field) > 2 for field in filled)  # "-" and "--" mean no value


def _closing(reader: Iterator[Sequence[str]], first: str, after_blank: bool) -> list[str]:
    """What stands below the last row: a remark of the program that wrote the file.

    Empty unless it follows a blank line or can be no row that was cut off, as "(9 rows affected)".
    """
    if not (after_blank or re.match(r"[(#\x1a]", first)):
        return []
    below = [*islice(reader, CLOSING_LINES + 1)]
    if len(below) > CLOSING_LINES or any(len(fields) > 1 for fields in below):
        return []
    return [first, *(fields[0] for fields in below if fields)]


def _is_value(field: str) -> bool:
    """A number, a date or a time."""
    return re.fullmatch(r"[-+\d.,:/%\s]*\d[-+\d.,:/%\sTZ]*", field) is not None


def csv_batches(path: Path, request: ReadRequest) -> Iterator[Table]:
    """Rows of a CSV file with a header; all values are text here."""
    with open_text(path, request.encoding, "CSV") as (file, guessed):
        notes = guessed
        lines = Lines(path, file, request.rows >= WHOLE)
        stream, head = iter(lines), list[str]()
        while len(head) < HEAD_LINES and lines.total < HEAD_CHARACTERS:
            line = next(stream, None)
            if line is None:
                break
            lines.row = 0
            head.append(line)
        if not head:
            raise InputError(f"{path} is empty.")
        delimiter, above = _layout(head)
        if head[above].count(delimiter) >= MAX_COLUMNS:
            raise InputError(f"{path} has more than {MAX_COLUMNS:,} columns: is it a table?")
        sep = re.match(r"\"?sep=", head[0])
        if above > bool(sep) and any(line.strip() for line in head[:above]):
            notes = (*notes, f"{path}: {counted(above, 'line')} above the header left out.")
        rows = csv.reader(chain(head[above:], stream), delimiter=delimiter, strict=True)
        yield from _csv_rows(path, rows, lines, request, notes, above)


def _csv_rows(
    path: Path, reader: Any, lines: Lines, request: ReadRequest, notes: tuple[str, ...], above: int
) -> Iterator[Table]:
    header = next(reader, None)
    if not header:
        raise InputError(f"{path} is empty.")
    first = None
    while not first:
        lines.row = 0
        first = next(reader, None)
        if first is None:
            break
    waiting = [first] if first else []
    if first is not None and len(first) == len(header):
        for _ in range(2):
            lines.row = 0
            line = next(reader, None)
            waiting += [] if line is None else [line]
            if line is None or len(line) != len(header):
                break  # refused below, by its number
        if _is_rule(first):
            waiting = waiting[1:]
            first = waiting[0] if waiting else []
            notes = (*notes, f"{path}: the rule under the header left out.")
        second = waiting[1] if len(waiting) > 1 else []
        if units := _units(first, second):
            waiting = waiting[1:]
            told = some_names(units, 3)
            notes = (*notes, f"{path}: the line under the header names units ({told}), left out.")
        elif again := _names_again(waiting):
            waiting = waiting[again:]
            what = "line" if again == 1 else f"{again} lines"
            said = f"the {what} under the header ({some_names(first, 3)}) left out: names again"
            notes = (*notes, f"{path}: {said}.")
    guarded = any(map(GUARDED.fullmatch, chain.from_iterable(waiting)))
    row_names = trailing = False
    if first is not None and len(first) == len(header) + 1:
        trailing = not first[-1].strip()  # separators at the ends of lines
        row_names = not trailing  # as R writes them
    if _is_data(header):
        waiting.insert(0, header)
        header = [f"column{k}" for k in range(1, len(header) + 1)]
        called = f"column1 to column{len(header)}" if len(header) > 1 else "column1"
        notes = (*notes, f"{path} has no header: its columns are called {called}.")
    names, nameless, twice = name_columns(["", *header] if row_names else header)
    width = len(names) + trailing
    kept = [k for k in request.wants(names) if names[k] not in twice]
    refused = {names[k]: twice[names[k]] for k in request.wants(names) if names[k] in twice}
    lines.row = 0
    given: Iterator[list[str]] = chain(waiting, reader)
    totals = WithoutTotals(map(_unguarded, given) if guarded else given)
    rows = iter(totals)
    some = blank = False
    told_so_far: tuple[str, ...] = ()
    while True:
        batch: list[list[str | None]] = []
        end = lines.total + BATCH_CHARACTERS
        seen = 0
        for fields in islice(rows, min(request.rows, CSV_ROWS)):
            seen += 1
            if len(fields) > 1 and not any(map(str.strip, fields)):
                told = f"{path}: rows without any value are left out, and not counted."
                notes = notes if told in notes else (*notes, told)
            elif len(fields) == width and not (trailing and fields[-1].strip()):
                if fields == header and width > 1:
                    told = f"{path}: lines that repeat the header are left out, and not counted."
                    notes = notes if told in notes else (*notes, told)
                else:
                    batch.append([fields[k].strip() or None for k in kept])
            elif fields:  # else a blank line
                at = reader.line_num + above
                closing = _closing(rows, fields[0], blank) if len(fields) == 1 < width else []
                if not closing:
                    raise InputError(
                        f"{path}, line {at}: {counted(len(fields), 'field')}, but the header has "
                        f"{len(names)}."
                    )
                shown = some_names((line[:40] for line in closing), 2)
                notes = (*notes, f"{path}: what stands below the last row ({shown}) left out.")
            blank = not fields
            lines.row = 0
            if lines.total > end:
                break
        notes = (*notes, *(note for note in totals.note(path) if note not in notes))
        lines.keep(FIELD_BYTES * len(kept) * len(batch))
        if not seen and some and notes == told_so_far:
            return
        if seen and not batch:
            continue  # nothing but blank lines, and the file may go on
        cells = np.array(batch, dtype=object).reshape(len(batch), len(kept))
        yield Table(
            str(path),
            len(batch),
            {names[k]: cells[:, j] for j, k in enumerate(kept)},
            refused=refused,
            notes=notes,
            nameless=nameless,
        )
        some, told_so_far = True, notes


# What stands below the last row ------------------------------------------------------------------


class WithoutTotals:
    """Rows without last ones that begin with "Total" or the like, where no row before them does.

    Attributes
    ----------
    left_out : list of str
        Their first words, once all rows are read.
    """

    def __init__(self, rows: Iterable[Sequence[Any]]):
        self.rows = rows
        self.left_out: list[str] = []

    def __iter__(self) -> Iterator[Sequence[Any]]:
        held: list[Sequence[Any]] = []
        words: list[str] = []
        usual = False
        for row in self.rows:
            if row and not held and type(row[0]) is str and row[0][:1] not in TOTAL_STARTS:
                yield row  # soon, since most rows are of this kind
                continue
            first = next((str(cell).strip() for cell in row if not _is_blank(cell)), "")
            total = not usual and TOTAL.fullmatch(first)
            if total or (held and not first):
                held.append(row)
                words += [first] if total else []
            elif held and len(row) == 1:  # a remark below them, after a blank line
                yield from ([], row)
            else:
                usual = usual or bool(held)
                yield from held
                held, words = [], []
                yield row
        self.left_out = words

    def note(self, path: Path) -> tuple[str, ...]:
        """What to say of them."""
        if not self.left_out:
            return ()
        return (f"{path}: totals below the last row ({some_names(self.left_out, 2)}) left out.",)


class WithoutRemarks:
    """Rows of a sheet without blank ones and what stands below the last: texts after a blank row.

    Attributes
    ----------
    left_out : list of str
        These texts, once all rows are read.
    """

    def __init__(self, rows: Iterator[tuple[Any, ...]]):
        self.rows = rows
        self.left_out: list[str] = []

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        held: list[tuple[Any, ...]] = []
        wide = after_blank = False
        for row in self.rows:
            if not row:
                after_blank = True
                continue
            filled = sum(not _is_blank(cell) for cell in row)
            alone = filled == 1 and isinstance(row[0], str)
            wide = wide or filled > 2
            if wide and alone and (held or after_blank) and len(held) < CLOSING_LINES:
                held.append(row)
            else:
                yield from held
                held = []
                yield row
            after_blank = False
        self.left_out = [row[0].strip() for row in held]

    def note(self, path: Path) -> tuple[str, ...]:
        """What to say of them."""
        if not self.left_out:
            return ()
        shown = some_names((line[:40] for line in self.left_out), 2)
        return (f"{path}: what stands below the last row ({shown}) left out.",)


def _is_blank(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


# svmlight ----------------------------------------------------------------------------------------


def svmlight_batches(path: Path, request: ReadRequest) -> Iterator[Table]:
    """Rows of a svmlight file: the first field is the column `label` (NaN: no label).

    Indices are taken as they stand, so that files of one data set agree whether or not they count
    from 0: a file that counts from 1 has an empty first feature.
    """
    number = 0
    with reading(path, "svmlight"), open_bytes(path) as file:
        lines = Lines(path, file, request.rows >= WHOLE)
        while True:
            labels: list[float] = []
            data: list[float] = []
            indices: list[int] = []
            indptr = [0]
            for line in lines:
                number += 1
                fields = line.split(b"#", 1)[0].split()
                lines.row = 0
                lines.keep(PAIR_BYTES * len(fields))
                if not fields:
                    continue
                try:
                    labels.append(float(fields[0]))
                    for pair in fields[1:]:
                        index, value = pair.split(b":")
                        if index != b"qid":
                            indices.append(int(index))
                            data.append(float(value))
                except ValueError:
                    raise InputError(
                        f"{path}, line {number}: expected a label and index:value pairs, got "
                        f"{line[:40].decode('utf-8', 'replace').strip()!r}."
                    ) from None
                indptr.append(len(indices))
                if len(labels) == request.rows:
                    break
            if not labels:
                return
            if min(indices, default=0) < 0 or max(indices, default=0) > 2**31 - 2:
                raise InputError(f"{path}: an index is negative or above 2³¹.")
            width = max(indices, default=0) + 1
            check_width(path, width)
            block = sp.csr_array((np.array(data), indices, indptr), shape=(len(labels), width))
            block.sum_duplicates()
            yield Table(str(path), len(labels), {LABEL: np.array(labels)}, block)

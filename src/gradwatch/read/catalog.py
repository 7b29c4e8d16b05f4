"""The files of a run, and what they state apart from rows: sites, attempts, groups.

The manifests name the sealed segments; journals that no manifest names are read
as far as they are written. A bare listing of segments is used only for a writer
whose manifest is lost, and then their names' checksums decide.
"""

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

from gradwatch.read.file_cache import FileCache, crc32c
from gradwatch.read.writer_files import Segment, SiteName, Writer
from gradwatch.store import Damage, Journal, checks, findings_lines, manifest, tables
from gradwatch.store import file_names as names
from gradwatch.util import Json
from gradwatch.util.files import Known, regular

_TRIES = 50
_LARGEST = 1 << 32
"""More bytes than any segment has."""


class Catalog:
    """The files of a run; `refresh` lists them again.

    `writers` are by name, oldest first. `unreadable` are segments that a database cannot read, and
    why, although their checksums are right; they are damage from the next `refresh` on.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.writers: dict[str, Writer] = {}
        self.damage: list[Damage] = []
        self.unreadable: dict[Path, str] = {}
        self._checksums = FileCache(crc32c)
        self._manifests = FileCache(self._read_manifest)
        self._journals: dict[tuple[str, int], Journal] = {}
        self._sites: dict[Path, tuple[int, int, list[SiteName | None]]] = {}
        self._known = Known()
        self._findings = FileCache(lambda path: findings_lines.read(path.parent).fault)
        self._names: dict[int, tuple[object, list[SiteName | None]]] = {}

    def refresh(self) -> None:
        """List the files again, and read what was appended to journals."""
        for last in (*[False] * (_TRIES - 1), True):
            try:
                self._scan(give_up=last)
                return
            except FileNotFoundError:
                # A journal was sealed and deleted between two looks: its rows are now
                # in a segment, which the manifest names.
                continue

    def segments(self, table: str) -> list[Segment]:
        """The whole segments of a table, oldest first."""
        return [
            segment
            for writer in self.writers.values()
            for number in sorted(writer.sealed)
            for segment in writer.sealed[number]
            if segment.table == table
        ]

    def journals(self) -> Iterator[Journal]:
        """The journals whose rows are in no segment."""
        for writer in self.writers.values():
            for number in sorted(writer.journals):
                yield writer.journals[number]

    def _scan(self, give_up: bool) -> None:
        # In this order: a journal that is listed and then sealed is found to be
        # missing, and a manifest is never older than the listing.
        listing = list(names.listed(self.directory))
        damage = self._findings_damage()
        writers: dict[str, Writer] = {}
        for name in listing:
            if writer_name := names.parse_manifest(name):
                path = self.directory / name
                writers[writer_name] = self._writer_from_manifest(writer_name, path, damage)
        listed = {found for name in listing if (found := names.parse_journal(name))}
        self._find_orphans(writers, listed, damage)
        for journal_name in sorted(listed | {names.JournalName(*key) for key in self._journals}):
            writer = writers.setdefault(journal_name.writer, Writer(journal_name.writer))
            if journal_name.number not in writer.sealed:
                self._read_journal(writer, journal_name, journal_name in listed, give_up, damage)
        for key in list(self._journals):
            if key[1] in writers[key[0]].sealed:
                del self._journals[key]
        for writer in writers.values():
            _missing_numbers(writer, self.directory, damage)
        self.writers = dict(sorted(writers.items()))
        self.damage = damage

    def _findings_damage(self) -> list[Damage]:
        path = self.directory / names.FINDINGS
        try:
            fault = self._findings.get(path)
        except FileNotFoundError:
            return []
        except OSError as error:
            fault = f"it cannot be read ({error.strerror or error})"
        return [Damage(path, fault)] if fault else []

    def _writer_from_manifest(self, name: str, path: Path, damage: list[Damage]) -> Writer:
        try:
            content = self._manifests.get(path)
        except OSError as error:
            content = Damage(path, f"it cannot be read ({error.strerror or error})")
        if isinstance(content, Damage):
            damage.append(content)
            return Writer(name, without_manifest=True)
        writer = Writer(
            name,
            facts={key: content.get(key) for key in manifest.WRITER_FACTS},
            sites=content["sites"],
            attempts=list(content["attempts"]),
            groups=dict(content.get("groups") or {}),
            end=content.get("ended"),
            newest=content["newest"],
        )
        for entry in content["segments"]:
            segments = [
                Segment(
                    name,
                    entry["number"],
                    table,
                    self.directory / names.SEGMENTS / about["file"],
                    about["crc32c"],
                    about["rows"],
                    about["bytes"],
                )
                for table, about in entry["tables"].items()
            ]
            writer.lost_rows += entry.get("lost_rows") or 0
            self._seal(writer, entry["number"], segments, damage)
        return writer

    def _read_manifest(self, path: Path) -> dict[str, Json] | Damage:
        try:
            content = manifest.read(path, self._known)
            return {**content, "sites": self._encodable(content["sites"])}
        except manifest.LaterFormatError as error:
            return Damage(path, str(error))
        except ValueError as error:
            served = "its segments are found by their names, its attempts by their rows"
            return Damage(path, f"it is damaged ({error}); {served}")

    def _encodable(self, sites: Iterable[Json]) -> list[SiteName | None]:
        """The sites of a manifest; the same list if another writer has the same."""
        known = self._names.get(id(sites))
        if known is None or known[0] is not sites:
            known = self._names[id(sites)] = (sites, encodable_names(sites))
        return known[1]

    def _seal(
        self, writer: Writer, number: int, segments: list[Segment], damage: list[Damage]
    ) -> None:
        whole = []
        for segment in segments:
            fault = self._fault(segment)
            if fault is None:
                whole.append(segment)
            else:
                rows = "its" if segment.rows is None else f"{segment.rows:,}"
                lost = f"{rows} rows of {segment.table} are not shown"
                damage.append(Damage(segment.path, f"{fault}; {lost}"))
        if len(whole) < len(segments) and (writer.name, number) in self._journals:
            # The journal was read before it was sealed: its rows stay known.
            return
        writer.sealed[number] = whole

    def _fault(self, segment: Segment) -> str | None:
        """What is wrong with a segment's file; None if it is what was written.

        DuckDB does not check the pages of a Parquet file: a flipped bit would come out as
        another number. So DuckDB sees a file only after its checksum was compared.
        """
        if segment.path in self.unreadable:
            return self.unreadable[segment.path]
        try:
            size = regular.status(segment.path).st_size
            if size > _LARGEST or size != (segment.bytes or size):
                # To compute the checksum of a file that is far too large would take long.
                wanted = "" if segment.bytes is None else f", not {segment.bytes:,}"
                return f"it has {size:,} bytes{wanted}"
            found = self._checksums.get(segment.path)
        except FileNotFoundError:
            return "it is missing"
        except OSError as error:
            return f"it cannot be read ({error.strerror or error})"
        if found == segment.checksum:
            return None
        return f"its checksum is {found}, not {segment.checksum}"

    def _find_orphans(
        self, writers: dict[str, Writer], listed: set[names.JournalName], damage: list[Damage]
    ) -> None:
        """Find the segments of writers without a manifest by their names."""
        found: dict[tuple[str, int], list[Segment]] = {}
        folder = self.directory / names.SEGMENTS
        try:
            files = list(names.listed(folder))
        except OSError as error:
            damage.append(Damage(folder, f"it cannot be read ({error.strerror or error})"))
            return
        for file in files:
            name = names.parse_segment(file)
            if name is None or not writers.get(name.writer, _NO_MANIFEST).without_manifest:
                continue
            # With its journal still there, sealing has not come to its end.
            if names.JournalName(name.writer, name.number) not in listed:
                segment = Segment(
                    name.writer, name.number, name.table, folder / file, name.checksum
                )
                found.setdefault((name.writer, name.number), []).append(segment)
        for (name_, number), segments in sorted(found.items()):
            writer = writers.setdefault(name_, Writer(name_, without_manifest=True))
            writer.newest = max(writer.newest, number)
            self._seal(writer, number, segments, damage)

    def _read_journal(
        self,
        writer: Writer,
        name: names.JournalName,
        is_listed: bool,
        give_up: bool,
        damage: list[Damage],
    ) -> None:
        path = names.journal(self.directory, name.writer, name.number)
        key = name.writer, name.number
        journal = self._journals.get(key)
        try:
            fresh = journal or Journal(path)
            if is_listed:
                fresh.advance()
            journal = self._journals[key] = fresh
        except FileNotFoundError:
            if not give_up:
                raise
            damage.append(Damage(path, "it vanished"))
        except OSError as error:
            damage.append(Damage(path, f"it cannot be read ({error.strerror or error})"))
        if journal is None:
            return
        if not is_listed:
            damage.append(
                Damage(path, "it was deleted and not sealed; what was read of it is shown")
            )
        damage += journal.damage
        writer.journals[name.number] = journal
        writer.lost_rows += sum(block.facts["lost_rows"] for block in journal.readings)
        if name.number >= writer.newest:
            # Each journal knows all that the ones before it did.
            writer.newest = name.number
            writer.facts = journal.writer or writer.facts
            writer.sites = self._sites_of(journal, writer.sites)
            longer = len(journal.attempts) > len(writer.attempts)
            writer.attempts = list(journal.attempts if longer else writer.attempts)
            writer.groups = journal.groups or writer.groups
            writer.end = journal.end
        if journal.end is not None:
            writer.lost_rows += journal.end["lost_rows"]

    def _sites_of(self, journal: Journal, older: list[SiteName | None]) -> list[SiteName | None]:
        """The sites of a journal; the same list for as long as there are no more."""
        sizes = len(journal.sites), len(older)
        known = self._sites.get(journal.path)
        if known is None or known[:2] != sizes:
            known = (*sizes, _filled(encodable_names(journal.sites), older))
            self._sites[journal.path] = known
        return known[2]


def encodable_names(sites: Iterable[Json]) -> list[SiteName | None]:
    """Kind, path and group of sites; raises `ValueError` in words for what is no site."""
    found: list[SiteName | None] = []
    for entry in checks.sites(sites):
        kind, path, group = ("", "", "") if entry is None else map(tables.encodable, entry)
        found.append(None if entry is None else (kind, path, group))
    return found


def _filled(sites: list[SiteName | None], older: list[SiteName | None]) -> list[SiteName | None]:
    """The sites of a journal; those in a damaged frame as an earlier journal has them."""
    known = sites + [None] * (len(older) - len(sites))
    return [new or old for new, old in zip_longest(known, older)]


_NO_MANIFEST = Writer("", without_manifest=True)


def _missing_numbers(writer: Writer, directory: Path, damage: list[Damage]) -> None:
    for first, last in writer.missing:
        path = names.journal(directory, writer.name, first)
        what = "it is missing, and its rows with it"
        if last > first:
            what = f"it and the {last - first:,} journals after it are missing, with their rows"
        damage.append(Damage(path, what))
    for number, journal in writer.journals.items():
        if journal.torn and number < writer.newest:
            what = f"{journal.torn} bytes at its end are no whole record"
            damage.append(Damage(journal.path, what))

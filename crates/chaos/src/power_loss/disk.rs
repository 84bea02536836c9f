//! The recorded writes, and files as a disk has them: synced writes are there, other writes may be there in part.

use std::collections::BTreeMap;

use flovyn_sim::rng::Rng;

/// The unit that a disk writes atomically.
const SECTOR: usize = 512;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    /// The suffix of the file's name after the path of the database.
    file: &'a str,
    what: What<'a>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What<'a> {
    Write { offset: usize, data: &'a [u8] },
    Truncate { size: usize },
    Sync,
    Remove,
}

impl Entry<'_> {
    pub(super) fn is_sync(&self) -> bool {
        self.what == What::Sync
    }
}

/// All entries of a record, each with its position.
pub(super) fn entries(record: &[u8]) -> Result<Vec<(u64, Entry<'_>)>, String> {
    let mut entries = Vec::new();
    let mut position = 0;
    while position < record.len() {
        let (entry, size) =
            read(&record[position..]).ok_or_else(|| format!("no entry at {position} of the record"))?;
        entries.push((position as u64, entry));
        position += size;
    }
    Ok(entries)
}

fn read(record: &[u8]) -> Option<(Entry<'_>, usize)> {
    let head = record.iter().position(|byte| *byte == b'\n')?;
    let mut words = std::str::from_utf8(&record[..head]).ok()?.split(' ');
    let (kind, file) = (words.next()?, words.next()?);
    let (offset, size): (usize, usize) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let data = record.get(head + 1..head + 1 + size)?;
    let what = match kind {
        "write" => What::Write { offset, data },
        "truncate" => What::Truncate { size: offset },
        "sync" => What::Sync,
        "remove" => What::Remove,
        _ => return None,
    };
    Some((Entry { file: if file == "=" { "" } else { file }, what }, head + 1 + size))
}

#[derive(Debug, Default)]
struct File<'a> {
    synced: Vec<u8>,
    unsynced: Vec<What<'a>>,
}

/// The files of a database. Creating or removing a file is assumed to reach the disk at once.
#[derive(Debug, Default)]
pub(super) struct Files<'a>(BTreeMap<&'a str, File<'a>>);

impl<'a> Files<'a> {
    pub(super) fn apply(&mut self, entry: &Entry<'a>) {
        let file = self.0.entry(entry.file).or_default();
        match &entry.what {
            What::Sync => {
                for what in std::mem::take(&mut file.unsynced) {
                    carry_out(&mut file.synced, &what);
                }
            }
            What::Remove => {
                self.0.remove(entry.file);
            }
            what => file.unsynced.push(what.clone()),
        }
    }

    pub(super) fn has_unsynced(&self) -> bool {
        self.0.values().any(|file| !file.unsynced.is_empty())
    }

    /// The files if no write reached the disk that was not synced.
    pub(super) fn without_unsynced(&self) -> BTreeMap<String, Vec<u8>> {
        self.0.iter().map(|(name, file)| ((*name).to_owned(), file.synced.clone())).collect()
    }

    /// The files if some of these writes did: complete, not at all, or some of their sectors.
    pub(super) fn with_some_unsynced(&self, rng: &mut Rng) -> BTreeMap<String, Vec<u8>> {
        let mut left = self.without_unsynced();
        for (name, file) in &self.0 {
            let content = left.entry((*name).to_owned()).or_default();
            for what in &file.unsynced {
                match (rng.below(3), what) {
                    (0, _) => {}
                    (1, What::Write { offset, data }) => {
                        for (index, sector) in data.chunks(SECTOR).enumerate().filter(|_| rng.chance(50)) {
                            let offset = offset + index * SECTOR;
                            carry_out(content, &What::Write { offset, data: sector });
                        }
                    }
                    _ => carry_out(content, what),
                }
            }
        }
        left
    }
}

fn carry_out(content: &mut Vec<u8>, what: &What<'_>) {
    match what {
        What::Write { offset, data } => {
            let end = offset + data.len();
            if content.len() < end {
                content.resize(end, 0);
            }
            content[*offset..end].copy_from_slice(data);
        }
        What::Truncate { size } => content.resize(*size, 0),
        What::Sync | What::Remove => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_synced_is_sure_to_be_there() {
        let record = b"write = 2 3\nabcsync = 0 0\nwrite -wal 0 2\nxywrite = 0 1\nztruncate = 4 0\n";
        let entries = entries(record).unwrap();
        assert_eq!(entries.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 15, 26, 43, 56]);
        let mut files = Files::default();
        entries.iter().for_each(|(_, entry)| files.apply(entry));
        assert!(files.has_unsynced());
        let left = files.without_unsynced();
        assert_eq!(left[""], b"\0\0abc");
        assert_eq!(left["-wal"], b"");
        let torn: std::collections::BTreeSet<_> =
            (0..100).map(|seed| files.with_some_unsynced(&mut Rng::new(seed))[""].clone()).collect();
        assert!(torn.contains(&b"z\0ab"[..]) && torn.contains(&b"\0\0abc"[..]), "{torn:?}");
    }

    #[test]
    fn a_record_that_ends_in_the_middle_is_noticed() {
        assert!(entries(b"write = 0 3\nab").is_err());
    }
}

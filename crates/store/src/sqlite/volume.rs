//! Detects the file system of a database. On a file system that several machines share, locks and fsync are only as
//! reliable as that file system.

use std::fs::File;

/// A file system on which a database is not safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shared {
    pub(super) name: &'static str,
    /// Whether a lock on the whole file is separate from SQLite's locks. If not, it would block them.
    pub(super) locks_files: bool,
}

const fn shared(name: &'static str) -> Shared {
    Shared { name, locks_files: false }
}

/// By the number that Linux assigns (`statfs(2)`).
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "numbers of Linux"))]
const NUMBERS: &[(u32, Shared)] = &[
    (0x6969, shared("NFS")),
    (0x517B, shared("SMB")),
    (0xFF53_4D42, shared("SMB")),
    (0xFE53_4D42, shared("SMB")),
    (0x0102_1997, shared("9P")),
    (0x00C3_6400, shared("Ceph")),
    (0x5346_414F, shared("AFS")),
    (0x6B41_4653, shared("AFS")),
    (0x7375_7245, shared("Coda")),
    (0x0116_1970, shared("GFS2")),
    (0x7461_636F, shared("OCFS2")),
    (0x0BD0_0BD0, shared("Lustre")),
    (0x4750_4653, shared("GPFS")),
    // FUSE may be anything, such as sshfs or virtiofs. Its file locks are only valid on this machine.
    (0x6573_5546, Shared { name: "FUSE", locks_files: true }),
];

/// By the name that the BSDs and macOS use.
#[cfg_attr(not(target_vendor = "apple"), allow(dead_code, reason = "names of macOS"))]
const NAMES: &[(&str, Shared)] = &[
    ("nfs", shared("NFS")),
    ("smbfs", shared("SMB")),
    ("afpfs", shared("AFP")),
    ("webdav", shared("WebDAV")),
    ("macfuse", Shared { name: "FUSE", locks_files: true }),
];

/// The shared file system of a file. `None`: it is local, or unknown.
pub(super) fn of(file: &File) -> Option<Shared> {
    let facts = rustix::fs::fstatfs(file).ok()?;
    #[cfg(target_os = "linux")]
    return by_number(u32::try_from(facts.f_type & 0xFFFF_FFFF).ok()?);
    #[cfg(target_vendor = "apple")]
    {
        let bytes = facts.f_fstypename.iter().map(|byte| byte.cast_unsigned());
        let name: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
        return by_name(std::str::from_utf8(&name).ok()?);
    }
    #[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
    {
        let _ = facts;
        None
    }
}

#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "numbers of Linux"))]
fn by_number(number: u32) -> Option<Shared> {
    NUMBERS.iter().find(|(known, _)| *known == number).map(|(_, shared)| *shared)
}

#[cfg_attr(not(target_vendor = "apple"), allow(dead_code, reason = "names of macOS"))]
fn by_name(name: &str) -> Option<Shared> {
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, shared)| *shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_and_local_ones_are_not_among_them() {
        assert_eq!(by_number(0x6969).map(|shared| shared.name), Some("NFS"));
        assert_eq!(by_number(0xFE53_4D42).map(|shared| shared.name), Some("SMB"));
        assert_eq!(by_number(0x0102_1997).map(|shared| shared.name), Some("9P"));
        assert!(by_number(0x6573_5546).is_some_and(|shared| shared.locks_files), "FUSE");
        assert_eq!(by_name("smbfs").map(|shared| shared.name), Some("SMB"));
        for local in [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x794C_7630, 0x2FC1_2FC1] {
            assert_eq!(by_number(local), None, "ext4, XFS, Btrfs, tmpfs, overlay or ZFS: {local:x}");
        }
        assert_eq!(by_name("apfs"), None);
    }

    #[test]
    fn the_file_system_of_a_file_is_asked_for() {
        let numbers: Vec<u32> = NUMBERS.iter().map(|(number, _)| *number).collect();
        let file = tempfile::tempfile().unwrap();
        let facts = rustix::fs::fstatfs(&file).unwrap();
        let is_shared = numbers.iter().any(|number| i128::from(*number) == i128::from(facts.f_type));
        assert_eq!(of(&file).is_some(), is_shared);
    }
}

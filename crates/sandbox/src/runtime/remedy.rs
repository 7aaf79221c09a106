//! Why a system forbids namespaces to its users, and the command that allows them.

use std::path::Path;

/// What a system says of namespaces.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Settings {
    /// `user.max_user_namespaces`.
    most: Option<u64>,
    /// `kernel.unprivileged_userns_clone`, of Debian's kernels.
    clone: Option<u64>,
    /// `kernel.apparmor_restrict_unprivileged_userns`, of Ubuntu's.
    apparmor: Option<u64>,
}

impl Settings {
    /// Of this machine. What it does not know it does not forbid by.
    pub(super) fn read() -> Self {
        let number = |name: &str| std::fs::read_to_string(Path::new("/proc/sys").join(name)).ok()?.trim().parse().ok();
        Self {
            most: number("user/max_user_namespaces"),
            clone: number("kernel/unprivileged_userns_clone"),
            apparmor: number("kernel/apparmor_restrict_unprivileged_userns"),
        }
    }

    /// The command that allows `program` what was refused by `errno`; nothing where it was refused for another reason.
    pub(super) fn remedy(self, errno: i32, program: &Path) -> Option<String> {
        match errno {
            libc::ENOSPC => Some("sudo sysctl -w user.max_user_namespaces=10000".to_owned()),
            libc::EPERM | libc::EACCES if self.most == Some(0) => self.remedy(libc::ENOSPC, program),
            libc::EPERM | libc::EACCES if self.clone == Some(0) => {
                Some("sudo sysctl -w kernel.unprivileged_userns_clone=1".to_owned())
            }
            libc::EPERM | libc::EACCES if self.apparmor.is_some_and(|restricted| restricted != 0) => {
                Some(profile(program))
            }
            _ => None,
        }
    }
}

/// Where no setting of the machine forbids them, a filter around all of this does, which a container has by default.
pub(super) fn of_container(errno: i32) -> Option<String> {
    matches!(errno, libc::EPERM | libc::EACCES).then(|| "docker run --security-opt seccomp=unconfined …".to_owned())
}

/// What lets a task have a layer of its own over a snapshot, where the file system or the kernel refused that.
pub(super) fn of_layer(errno: i32) -> Option<String> {
    match errno {
        // One that is an overlay itself, as a container's root is, or that keeps no extended attributes.
        libc::EINVAL | libc::EOPNOTSUPP => Some("choir up --data DIRECTORY, on ext4, xfs or btrfs".to_owned()),
        libc::ENODEV => Some("sudo modprobe overlay".to_owned()),
        _ => None,
    }
}

/// Has AppArmor let this program, and no other, make namespaces.
fn profile(program: &Path) -> String {
    let program = program.display();
    format!(
        "printf 'abi <abi/4.0>,\\nprofile choir \"{program}\" flags=(unconfined) {{ userns, }}\\n' | \
         sudo tee /etc/apparmor.d/choir && sudo apparmor_parser -r /etc/apparmor.d/choir"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_is_for_what_this_machine_forbids_by() {
        let free = Settings { most: Some(10_000), clone: Some(1), apparmor: Some(0) };
        let remedy = |settings: Settings, errno| settings.remedy(errno, Path::new("/opt/choir")).unwrap_or_default();
        assert!(remedy(Settings { most: Some(0), ..free }, libc::EPERM).contains("user.max_user_namespaces=10000"));
        assert!(remedy(free, libc::ENOSPC).contains("user.max_user_namespaces=10000"));
        assert!(remedy(Settings { clone: Some(0), ..free }, libc::EPERM).contains("unprivileged_userns_clone=1"));
        let profile = remedy(Settings { apparmor: Some(1), ..free }, libc::EACCES);
        assert!(profile.contains("\"/opt/choir\"") && profile.contains("apparmor_parser -r"), "{profile}");
        assert_eq!((remedy(free, libc::EPERM), remedy(free, libc::ENOENT)), (String::new(), String::new()));
        assert!(of_layer(libc::EINVAL).is_some_and(|mend| mend.contains("ext4, xfs or btrfs")));
        assert!(of_layer(libc::ENODEV).is_some_and(|mend| mend.contains("modprobe overlay")));
        assert_eq!(of_layer(libc::EPERM), None);
        assert!(of_container(libc::EPERM).is_some() && of_container(libc::ENOENT).is_none());
    }
}

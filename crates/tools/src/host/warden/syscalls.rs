//! The system calls that a confined command cannot make. A list of what is dangerous or leads out; the
//! rest is bounded by namespaces or Landlock.

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter, sock_filter,
};
use std::{collections::BTreeMap, io};

/// Which kinds of sockets there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sockets {
    /// Those that namespaces keep inside.
    Namespaced,
    /// The internet's only: paths of others' sockets cannot be covered.
    Internet,
    /// None; a pair of connected ones can still be made.
    None,
}

const REFUSED: [libc::c_long; 44] = [
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

/// Puts words into a terminal's input, as if the user had typed them.
const TERMINAL_INPUT: [u64; 2] = [libc::TIOCSTI, libc::TIOCLINUX];
/// Numbers from here on mean the x32 variant of a call, behind which a refused one could hide.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// Applies the filters to this process and all it will start.
pub(super) fn restrict(sockets: Sockets) -> io::Result<()> {
    let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    // The C library falls back to calls whose flags can be seen.
    let unknown = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    for program in [compile(rules(sockets)?, refused)?, compile(clone3, unknown)?] {
        apply_filter(&program).map_err(io::Error::other)?;
    }
    #[cfg(target_arch = "x86_64")]
    apply_filter(&refuse_x32()).map_err(io::Error::other)?;
    Ok(())
}

fn compile(rules: BTreeMap<i64, Vec<SeccompRule>>, action: SeccompAction) -> io::Result<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch).map_err(io::Error::other)?;
    filter.try_into().map_err(io::Error::other)
}

fn rules(sockets: Sockets) -> io::Result<BTreeMap<i64, Vec<SeccompRule>>> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.into_iter().map(|number| (number, Vec::new())).collect();
    let input = TERMINAL_INPUT.into_iter().map(|request| rule(&[(1, SeccompCmpOp::Eq, request)]));
    rules.insert(libc::SYS_ioctl, input.collect::<io::Result<_>>()?);
    let user_namespace = libc::CLONE_NEWUSER.cast_unsigned().into();
    for number in [libc::SYS_unshare, libc::SYS_clone] {
        rules.insert(number, vec![rule(&[(0, SeccompCmpOp::MaskedEq(user_namespace), user_namespace)])?]);
    }
    let families: &[i32] = match sockets {
        Sockets::Namespaced => &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK],
        Sockets::Internet => &[libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK],
        Sockets::None => &[],
    };
    let others: Vec<_> =
        families.iter().map(|family| (0, SeccompCmpOp::Ne, u64::from(family.cast_unsigned()))).collect();
    rules.insert(libc::SYS_socket, if others.is_empty() { Vec::new() } else { vec![rule(&others)?] });
    Ok(rules)
}

fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> io::Result<SeccompRule> {
    let conditions: Result<Vec<_>, _> = conditions
        .iter()
        .map(|(argument, compare, value)| {
            SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, compare.clone(), *value)
        })
        .collect();
    SeccompRule::new(conditions.map_err(io::Error::other)?).map_err(io::Error::other)
}

/// Four instructions that the compiler above cannot make: it compares numbers for equality only.
#[cfg(target_arch = "x86_64")]
fn refuse_x32() -> BpfProgram {
    let instruction =
        |code: u32, jt, jf, k| sock_filter { code: code.try_into().unwrap_or_default(), jt, jf, k };
    vec![
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32),
        instruction(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned(),
        ),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

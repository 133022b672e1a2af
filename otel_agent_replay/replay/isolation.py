"""The kernel fence: a seccomp filter around a replaying process, so that "offline" is a fact and not a promise.

It denies, with EPERM, in every thread and for the life of the process: new sockets of any family, connecting,
binding, sending to an address, io_uring, child processes, tracing or joining other processes and their
namespaces, and (after `forbid_exec`) other programs. What remains is memory, files, and socket pairs between
the process's own threads (asyncio needs one). It does not deny writing to files, named pipes and descriptors
that the process was started with.

Linux on x86-64 and ARM64 only, no privilege needed; elsewhere `why_not` says so and the report says
"fence: in-process only". Supervised, it lets stream sockets be made and hands each connect to another process
(`supervisor`). The in-process fence names attempts before the kernel refuses them; what a C library
tries by itself is refused but not named.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Callable
from typing import Any

from otel_agent_replay.errors import CannotJudge

NAME = "kernel (seccomp)"

_PR_SET_NO_NEW_PRIVS = 38
_SET_MODE_FILTER = 1
_GET_ACTION_AVAIL = 2
_FLAG_TSYNC = 1
_FLAG_NEW_LISTENER, _FLAG_TSYNC_ESRCH, _FLAG_WAIT_KILLABLE = 8, 16, 32
_RET_ALLOW = 0x7FFF0000
_RET_ERRNO = 0x00050000
_RET_USER_NOTIF = 0x7FC00000
_DENY = _RET_ERRNO | errno.EPERM
_NO_SUCH_CALL = _RET_ERRNO | errno.ENOSYS

# Classic BPF: load a word of struct seccomp_data, compare it, mask it, return.
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER_AT, _ARCH_AT, _ARGS_AT = 0, 4, 16
_CLONE_THREAD = 0x00010000
_SOCK_TYPE_MASK, _SOCK_STREAM, _SOCK_DGRAM = 0xF, 1, 2
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_IPPROTO_TCP = 6
_MSG_FASTOPEN = 0x20000000
_X32 = 0x40000000

# System call numbers: (x86-64, ARM64); None where the architecture has no such call.
_DENIED: dict[str, tuple[int | None, int | None]] = {
    "socket": (41, 198),
    "connect": (42, 203),
    "accept": (43, 202),
    "accept4": (288, 242),
    "bind": (49, 200),
    "listen": (50, 201),
    "sendmmsg": (307, 269),
    "fork": (57, None),
    "vfork": (58, None),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
}
_EXECUTION: dict[str, tuple[int | None, int | None]] = {"execve": (59, 221), "execveat": (322, 281)}
_SENDTO = (44, 206)
_SENDMSG = (46, 211)
_SOCKETPAIR = (53, 199)
_CLONE = (56, 220)
_CLONE3 = (435, 435)
_SECCOMP = (317, 277)
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


_Syscall = Callable[..., int]
_syscall: _Syscall | None = None  # kept, so that the second filter needs no look-up through the in-process fence


def why_not() -> str:
    """Return why this machine has no kernel fence, or "" when it has one."""
    if sys.platform != "linux":
        return f"seccomp is a feature of Linux, this is {sys.platform}"
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        return f"no filter is written for {machine}"
    if struct.calcsize("P") != 8:
        return "the interpreter is a 32-bit program"
    action = ctypes.c_uint32(_RET_ERRNO)
    column, _ = _ARCHITECTURES[machine]
    if _call()(_SECCOMP[column], _GET_ACTION_AVAIL, 0, ctypes.byref(action)) != 0:
        return f"the kernel refuses seccomp: {os.strerror(ctypes.get_errno())}"
    return ""


def why_no_notices() -> str:
    """Return why the kernel cannot hand system calls to another process, or "" when it can."""
    action = ctypes.c_uint32(_RET_USER_NOTIF)
    column, _ = _ARCHITECTURES[platform.machine()]
    if _call()(_SECCOMP[column], _GET_ACTION_AVAIL, 0, ctypes.byref(action)) != 0:
        return "the kernel has no seccomp user notification"
    return ""


def apply_kernel_fence(*, supervised: bool = False) -> int | None:
    """Put the fence around this process for the rest of its life, in every thread it has and will have.

    With `supervised` returns the descriptor on which each connect is to be answered (`supervisor` does), None when a
    supervised fence stands already. Raises CannotJudge where that is impossible; nothing is changed then.
    """
    reason = why_not()
    if reason:
        raise CannotJudge(f"--isolate is not possible here: {reason}. Without it the in-process fence stands alone")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise CannotJudge(f"--isolate failed: no_new_privs is refused: {os.strerror(ctypes.get_errno())}")
    if not supervised:
        _load(_first_filter)
        return None
    flags = _FLAG_TSYNC | _FLAG_NEW_LISTENER | _FLAG_TSYNC_ESRCH
    result, error = _loaded(_supervised_filter, flags | _FLAG_WAIT_KILLABLE)
    if error == errno.EINVAL:  # an older kernel lets any signal break off a call that is being answered
        result, error = _loaded(_supervised_filter, flags)
    if error == errno.EBUSY:
        return None
    if error:
        raise CannotJudge(f"--isolate failed: the kernel did not take the filter: {os.strerror(error)}")
    return result


def forbid_exec() -> None:
    """Deny other programs too. Before the run starts, a launcher may still turn into the program it launches."""
    _load(_second_filter)


def _call() -> _Syscall:
    global _syscall
    if _syscall is None:
        function: Any = ctypes.CDLL(None, use_errno=True).syscall
        function.restype = ctypes.c_long
        _syscall = function
    return _syscall


def _load(build: Callable[[int, int], list[bytes]]) -> None:
    result, error = _loaded(build, _FLAG_TSYNC)
    if result != 0:
        why = f"thread {result} has another filter" if result > 0 else os.strerror(error)
        raise CannotJudge(f"--isolate failed: the kernel did not take the filter: {why}")


def _loaded(build: Callable[[int, int], list[bytes]], flags: int) -> tuple[int, int]:
    """Load a filter; return the kernel's result and, where that is negative, the error number."""
    column, architecture = _ARCHITECTURES[platform.machine()]
    code = build(column, architecture)
    program = _Program(len(code), b"".join(code))
    result = _call()(_SECCOMP[column], _SET_MODE_FILTER, flags, ctypes.byref(program))
    return result, ctypes.get_errno() if result < 0 else 0


def _supervised_filter(column: int, architecture: int) -> list[bytes]:
    """Stream sockets may be made, each connect is another process's to make; all else is as in the first filter."""
    code = _head(architecture, column)
    deny, allow = _instruction(_RETURN, _DENY), _instruction(_RETURN, _RET_ALLOW)
    code += _if_number(_DENIED["connect"][column], [_instruction(_RETURN, _RET_USER_NOTIF)])
    code += _if_number(
        _DENIED["socket"][column],
        [
            _instruction(_LOAD, _ARGS_AT),
            _instruction(_EQUAL, _AF_INET, 3, 0),
            _instruction(_EQUAL, _AF_INET6, 2, 0),
            _instruction(_EQUAL, _AF_UNIX, 1, 0),
            deny,
            _instruction(_LOAD, _ARGS_AT + 8),
            _instruction(_AND, _SOCK_TYPE_MASK),
            _instruction(_EQUAL, _SOCK_STREAM, 1, 0),
            deny,
            _instruction(_LOAD, _ARGS_AT + 16),
            _instruction(_EQUAL, 0, 2, 0),
            _instruction(_EQUAL, _IPPROTO_TCP, 1, 0),
            deny,
            allow,
        ],
    )
    # Sending can connect too: "fast open", with an address that the filter cannot see.
    code += _if_number(
        _SENDMSG[column],
        [_instruction(_LOAD, _ARGS_AT + 16), _instruction(_ANY_BIT, _MSG_FASTOPEN, 0, 1), deny, allow],
    )
    return [*code, *_first_filter(column, architecture)]


def _first_filter(column: int, architecture: int) -> list[bytes]:
    code = _head(architecture, column)
    for numbers in _DENIED.values():
        code += _if_number(numbers[column], [_instruction(_RETURN, _DENY)])
    # Sending on a connected pair is fine, sending to an address is not: the address pointer must be null.
    code += _if_number(
        _SENDTO[column],
        [
            _instruction(_LOAD, _ARGS_AT + 8 * 4),
            _instruction(_EQUAL, 0, 0, 2),
            _instruction(_LOAD, _ARGS_AT + 8 * 4 + 4),
            _instruction(_EQUAL, 0, 1, 0),
            _instruction(_RETURN, _DENY),
            _instruction(_RETURN, _RET_ALLOW),
        ],
    )
    # A datagram pair can send to any name by sendmsg, whose address the filter cannot see.
    code += _if_number(
        _SOCKETPAIR[column],
        [
            _instruction(_LOAD, _ARGS_AT + 8),
            _instruction(_AND, _SOCK_TYPE_MASK),
            _instruction(_EQUAL, _SOCK_DGRAM, 0, 1),
            _instruction(_RETURN, _DENY),
            _instruction(_RETURN, _RET_ALLOW),
        ],
    )
    # Threads yes, processes no. clone3 hides its flags behind a pointer; without it the C library uses clone.
    code += _if_number(
        _CLONE[column],
        [
            _instruction(_LOAD, _ARGS_AT),
            _instruction(_ANY_BIT, _CLONE_THREAD, 1, 0),
            _instruction(_RETURN, _DENY),
            _instruction(_RETURN, _RET_ALLOW),
        ],
    )
    code += _if_number(_CLONE3[column], [_instruction(_RETURN, _NO_SUCH_CALL)])
    return [*code, _instruction(_RETURN, _RET_ALLOW)]


def _second_filter(column: int, architecture: int) -> list[bytes]:
    code = _head(architecture, column)
    for numbers in _EXECUTION.values():
        code += _if_number(numbers[column], [_instruction(_RETURN, _DENY)])
    return [*code, _instruction(_RETURN, _RET_ALLOW)]


def _head(architecture: int, column: int) -> list[bytes]:
    """Deny calls of another architecture (32-bit, x32): their numbers mean other things. Leave the number loaded."""
    code = [
        _instruction(_LOAD, _ARCH_AT),
        _instruction(_EQUAL, architecture, 1, 0),
        _instruction(_RETURN, _DENY),
        _instruction(_LOAD, _NUMBER_AT),
    ]
    if column == 0:
        code += [_instruction(_AT_LEAST, _X32, 0, 1), _instruction(_RETURN, _DENY)]
    return code


def _if_number(number: int | None, then: list[bytes]) -> list[bytes]:
    """Run `then`, which must return, for this system call; else go on with the number still loaded."""
    return [] if number is None else [_instruction(_EQUAL, number, 0, len(then)), *then]


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)

"""The pages of flags: of the master, of a storage node, and of the commands of `mooncake`."""

from __future__ import annotations

from collections import Counter

from reference.man import Command, Option
from reference.page import page, prose, table

HOW = "[How values are written](../flags.md#how-values-are-written): with one dash or two, or in a file."
# Where the flags of a section are explained.
EXPLAINED = {
    "TLS": "security.md#tls",
    "RPC": "security.md#a-token",
    "Admin HTTP and metrics": "admin_http.md",
    "Metadata server": "services.md#the-metadata-server",
    "High availability": "high_availability.md",
    "Objects": "replicas_and_eviction.md#eviction",
    "Pool": "replicas_and_eviction.md#where-replicas-go",
    "Tenants": "tenants.md#quotas",
    "Replicas": "replicas_and_eviction.md#lost-replicas",
    "Disks": "disks.md",
    "KV events": "kv_events.md",
    "Dummy clients": "flags.md#dummy-clients",
    "Master": "high_availability.md#clients-and-nodes",
    "HTTP": "admin_http.md#http-of-a-client",
}
# An option of so many commands stands once, at the end.
SHARED_BY = 5


def row(option: Option) -> tuple[str, str, str]:
    default = f"`{option.default}`" if option.default and " " not in option.default else prose(option.default)
    return f"`{option.names}`", default, prose(option.text)


def program(command: Command) -> str:
    """The page of `mooncake_master` or `mooncake_client`."""
    parts = [f"{command.summary}.", HOW]
    for title, options in command.options.items():
        parts.append(f"## {'General' if title == 'Options' else title}")
        if title in EXPLAINED:
            parts.append(f"More: [{EXPLAINED[title].partition('#')[0]}](../{EXPLAINED[title]}).")
        parts.append(table(("flag", "default", "meaning"), map(row, options)))
    return page(f"Flags of {command.name}", *parts)


def shared_options(all_commands: dict[str, Command]) -> list[Option]:
    """The options by which many commands name a pool."""
    count = Counter(option for it in all_commands.values() for options in it.options.values() for option in options)
    return [option for option, times in count.items() if times >= SHARED_BY]


def commands(all_commands: dict[str, Command], on_a_pool: bool) -> str:
    """The page of the commands of `mooncake`: of those that work on a pool, or of the others."""
    shared = shared_options(all_commands)
    parts = [
        "[The command line](../command_line.md) has examples. "
        + (
            "[Other commands](other_commands.md) need no pool."
            if on_a_pool
            else "[Others](commands.md) work on a pool."
        )
    ]
    for name, it in all_commands.items():
        options = [option for options in it.options.values() for option in options]
        is_program = name in ("mooncake-master", "mooncake-client")
        if not name.startswith("mooncake-") or is_program or any(it in shared for it in options) != on_a_pool:
            continue
        parts += [f"## {name.replace('-', ' ', 1)}", *map(prose, it.description)]
        own = [option for option in options if option not in shared]
        if own:
            parts.append(table(("flag or argument", "default", "meaning"), map(row, own)))
    if on_a_pool:
        parts += ["## Flags of all of them", table(("flag", "default", "meaning"), map(row, shared))]
    return page("Commands on a pool" if on_a_pool else "Other commands", *parts)

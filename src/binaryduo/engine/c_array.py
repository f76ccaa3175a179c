"""A packed model as C source, for devices without a file system."""

import re

COLUMNS = 32  # bytes a line


def to_c_array(content: bytes, name: str) -> str:
    """A header that defines the file's bytes as a constant array for `duo_open_memory`.

    The array stays where the linker puts constants, which is flash on a microcontroller: the library reads the weights
    from there and copies none of them. What a name in C cannot hold becomes an underscore.

    >>> print(to_c_array(b"DUO", "my-net"))
    /* A packed model for duo_open_memory(my_net, sizeof my_net, …), see duo.h. Include it in one source file. */
    #if defined(__cplusplus)
    alignas(64)
    #else
    _Alignas(64)
    #endif
    static const unsigned char my_net[3] = {
    68,85,79
    };
    <BLANKLINE>
    """
    name = re.sub(r"\W", "_", name, flags=re.ASCII)
    if not name or name[0].isdigit():
        name = f"net_{name}"
    lines = [",".join(map(str, content[at : at + COLUMNS])) for at in range(0, len(content), COLUMNS)]
    return (
        f"/* A packed model for duo_open_memory({name}, sizeof {name}, …), see duo.h. "
        "Include it in one source file. */\n"
        "#if defined(__cplusplus)\nalignas(64)\n#else\n_Alignas(64)\n#endif\n"
        f"static const unsigned char {name}[{len(content)}] = {{\n" + ",\n".join(lines) + "\n};\n"
    )

"""Programs of collectives: their language and meaning, enumeration, and the best for given times."""

from sysgym.emulator.accelerators.programs.checking import InvalidProgram, apply_instruction, check_program
from sysgym.emulator.accelerators.programs.enumeration import enumerate_programs, program_edges
from sysgym.emulator.accelerators.programs.patterns import (
    COLLECTIVES,
    Collective,
    Form,
    Instruction,
    Pattern,
    Program,
    actions,
    format_instruction,
    format_program,
    lower,
    n_patterns,
    parse_program,
    pattern_of,
    patterns,
)
from sysgym.emulator.accelerators.programs.space import ProgramSpace, explore, program_space
from sysgym.emulator.accelerators.programs.states import (
    BroadcastRule,
    Convention,
    Precondition,
    State,
    contributions,
    is_goal,
    rows_held,
    start_state,
)
from sysgym.emulator.accelerators.programs.synthesis import best_program, program_times, top_programs

__all__ = [
    "COLLECTIVES",
    "BroadcastRule",
    "Collective",
    "Convention",
    "Form",
    "Instruction",
    "InvalidProgram",
    "Pattern",
    "Precondition",
    "Program",
    "ProgramSpace",
    "State",
    "actions",
    "apply_instruction",
    "best_program",
    "check_program",
    "contributions",
    "enumerate_programs",
    "explore",
    "format_instruction",
    "format_program",
    "is_goal",
    "lower",
    "n_patterns",
    "parse_program",
    "pattern_of",
    "patterns",
    "program_edges",
    "program_space",
    "program_times",
    "rows_held",
    "start_state",
    "top_programs",
]

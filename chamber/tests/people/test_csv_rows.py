"""Reading people of a CSV."""

import pytest

from chamber.people.csv_rows import MOST_LINES, UnreadableList, decoded, people_of


def read(text: str) -> list[tuple[int, dict[str, str], str]]:
    return [(each.line, each.values, each.fault) for each in people_of(text)]


@pytest.mark.parametrize(
    "text",
    [
        "username,name\nada,Ada L\n",
        "\ufeffusername,name\r\nada,Ada L\r\n",
        "username;name\nada;Ada L",
        "username\tname\nada\tAda L\n",
        '"username","name"\n"ada","Ada L"\n',
        "username,name,,\nada,Ada L,,\n",
        "Username, Name ,\n ada , Ada L ,,,\n",
    ],
)
def test_what_spreadsheets_write_is_read(text: str) -> None:
    assert read(text) == [(2, {"username": "ada", "name": "Ada L"}, "")]


def test_a_field_in_quotes_may_break_its_line_and_hold_separators() -> None:
    text = 'username;name\nada;"Ada ""A"" L;\nLovelace"\n\n;;\nbob;Bob\n'
    assert read(text) == [
        (2, {"username": "ada", "name": 'Ada "A" L;\nLovelace'}, ""),
        (6, {"username": "bob", "name": "Bob"}, ""),
    ]


def test_a_file_may_begin_with_a_byte_order_mark() -> None:
    assert decoded("\ufeffusername\nada\n".encode()) == "username\nada\n"


@pytest.mark.parametrize("value", ["=1+1", "+1", "-1", "@SUM(A1)", '"=HYPERLINK(""x"")"'])
def test_a_formula_is_a_fault_of_its_line(value: str) -> None:
    ((_, _, fault), other) = read(f"username,name\nada,{value}\nbob,Bob-1\n")
    assert (
        f"The column 'name' begins with {value.strip(chr(34))[0]!r}, as a formula of a spreadsheet does"
        in fault
    )
    assert other[2] == ""


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ("ada,x,y,7", "There are more values than columns: 7."),
        (",x,y", "There is no user name."),
        ("bob,x,y\nBob,x,z", "The user name bob stands in line 2 already."),
        ("bob,x,y\nada,x,Y", "The e-mail address y stands in line 2 already."),
    ],
)
def test_what_is_wrong_with_a_line_is_told(lines: str, fault: str) -> None:
    assert people_of(f"username,name,email\n{lines}\n")[-1].fault == fault


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "There is no column 'username'"),
        ("name\nAda\n", "There is no column 'username'"),
        ("username,age\nada,36\n", "There is a column 'age' in the heading; columns are username, name,"),
        ("username,,name\nada,,x\n", "Column 2 has no name"),
        ("username,name,name\nada,x,y\n", "The column 'name' stands twice"),
        ("username\n", "nobody below it"),
        ('username\nbob\n"ada\n', "Line 3 is no CSV: unexpected end of data."),
        ("username\na\x00b\n", "Line 2 is no CSV: it contains NUL."),
        (f"username\n{'x' * 200_000}\n", "Line 2 is no CSV: field larger than field limit"),
    ],
)
def test_a_file_that_is_not_understood_is_refused(text: str, says: str) -> None:
    with pytest.raises(UnreadableList) as refused:
        people_of(text)
    assert says in str(refused.value)


def test_so_many_lines_are_taken_and_one_more_is_refused() -> None:
    names = [f"u{number}" for number in range(MOST_LINES + 1)]
    assert len(people_of("\n".join(["username", *names[:-1]]))) == MOST_LINES
    with pytest.raises(
        UnreadableList, match="people in more than 10,000 lines, the most that are taken at once"
    ):
        people_of("\n".join(["username", *names]))


def test_another_encoding_is_named_by_its_first_byte() -> None:
    with pytest.raises(UnreadableList, match=r"not in UTF-8 \(byte 13\)"):
        decoded(b"username\nada\xe9\n")

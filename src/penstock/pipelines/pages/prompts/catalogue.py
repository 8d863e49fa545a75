"""What is read from one page of a college catalogue. The names of the fields are a contract with those who use the
files; what a page does not say is None or an empty list, never a guess."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

PageKind = Literal[
    "cover", "contents", "calendar", "trustees", "faculty", "students", "admission", "courses", "expenses", "prose",
    "blank", "other",
]  # fmt: skip

BlockKind = Literal["heading", "paragraph", "list", "table", "running_head", "page_number", "note"]


class TextBlock(BaseModel):
    """A piece of the page as it is printed, in reading order."""

    model_config = ConfigDict(extra="forbid")

    kind: BlockKind
    text: str = Field(description="The words as printed, line breaks joined, hyphens at line ends removed.")


class Course(BaseModel):
    """A subject of study that the page names."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="The subject as printed, without its number.")
    number: str | None = Field(description="Its number or letter, where one is printed.")
    department: str | None = Field(description="The department or school under whose heading it stands.")
    level: str | None = Field(description="The class or year for which it is meant, as printed: 'Freshman Class'.")
    term: str | None = Field(description="The term or session in which it is taught, as printed: 'First Term'.")
    hours: str | None = Field(description="Hours, recitations or credits, as printed.")
    textbooks: list[str] = Field(description="Books that are named for it, as printed.")
    description: str | None = Field(description="What is said about it, as printed.")


class CataloguePage(BaseModel):
    """One page."""

    model_config = ConfigDict(extra="forbid")

    page_kind: PageKind
    printed_page: str | None = Field(description="The page number that is printed on the page.")
    headings: list[str] = Field(description="Headings in reading order, as printed.")
    text_blocks: list[TextBlock]
    courses: list[Course] = Field(description="Courses in reading order.")
    continues: bool | None = Field(description="Whether the page begins in the middle of what the page before began.")

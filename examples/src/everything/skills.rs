//! Skills with subdirectories and a prefix.

use mcp_flow::skills::{Skill, SkillError, Skills};

/// Collects the skills.
pub fn skills() -> Skills {
    let skills = [pdf_processing(), refunds()].map(|skill| skill.expect("the fixtures are skills"));
    skills.into_iter().fold(Skills::new(), Skills::skill)
}

fn pdf_processing() -> Result<Skill, SkillError> {
    let text = "---
name: pdf-processing
description: Extract, fill, and assemble PDF documents
license: Apache-2.0
metadata:
  version: \"2.1.0\"
---

# PDF processing

Read `references/FORMS.md` before you fill in a form, and pick a template from `templates/`.
";
    let files = [
        ("SKILL.md", text),
        ("references/FORMS.md", "# Forms\n\nFill in every required field.\n"),
        ("templates/invoice.md", "# Invoice\n"),
        ("templates/regional/eu-invoice.md", "# Invoice (EU)\n"),
    ];
    Skill::new("pdf-processing", files)
}

fn refunds() -> Result<Skill, SkillError> {
    let text = "---
name: refunds
description: Process customer refund requests per company policy
---

Refund within 30 days. `examples/email.md` is an answer to copy from.
";
    let files = [("SKILL.md", text), ("examples/email.md", "Dear customer,\n")];
    Skill::new("acme/billing/refunds", files)
}

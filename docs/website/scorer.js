/* Chapters come before the pages of single scenarios, suites and files, whose sources have many words in common. */
var Scorer = {
  score: ([docname, title, anchor, descr, score]) =>
    score - (/^((scenarios|suites|source)\/|changelog$)/.test(docname) ? 3 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

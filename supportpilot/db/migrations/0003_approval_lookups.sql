-- Every release marks its turn's approvals as applied, every taking looks for a decided one.
CREATE INDEX ON desk.approvals (turn_id);

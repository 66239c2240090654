"""What the offline rules know about the subject: a book-keeping service's matters in Chinese and English words.

A concept is one matter under its many names. It votes for a category and lends its usual words to the search query,
so that a question in other words than the article's still meets it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Concept:
    """One matter: the category it speaks for, how strongly, its usual words, and how people say it."""

    category: str
    weight: float
    words: str
    pattern: re.Pattern[str]


def _c(category: str, weight: float, words: str, zh: str, en: str = "") -> Concept:
    parts = [zh] if zh else []
    if en:
        parts.append(rf"(?<![a-z0-9])(?:{en})(?![a-z0-9])")
    return Concept(category, weight, words, re.compile("|".join(parts)))


BANKS = r"(?:银行|招行|招商|工行|建行|农行|中行|交行|浦发|民生|中信|光大|网商|平安|邮储)"

CONCEPTS: dict[str, Concept] = {
    # banks
    "bank_sync": _c("technical", 2.5, "银行流水 同步 bank sync",
                    r"流水|同步|(?:没有?|不见).{0,4}新?的?(?:明细|交易|记录)|(?:明细|交易|收支|进账|入账记录).{0,14}(?:没|不|未|断).{0,6}(?:进来|更新|显示|到|拉|动|出来|有)|(?:对公户|账户).{0,4}(?:明细|交易)|银行.{0,8}(?:同步|对接|连接|更新|拉取|抓取|导不|拉不|断|绑定)|(?:同步|对接|连接|拉取|绑定).{0,8}银行|(?:银行|招行|招商|工行|建行|农行|中行|交行|浦发|民生|中信|光大|网商|平安|邮储).{0,8}(?:同步|连|交易|记录|断|更新)",
                    r"bank\w*.{0,30}(?:sync\w*|feeds?|import\w*|connect\w*|links?|linked|transactions?|data|statements?)|(?:sync\w*|feeds?|connect\w*|transactions?|link\w*|statements?).{0,30}bank\w*|feeds?"),
    "bank_auth": _c("technical", 2.0, "银行 授权 到期 重新授权 authorisation expired reauthorise",
                    r"授权|(?:账户|银行).{0,8}(?:过期|失效)|重新(?:连|接|绑|开通).{0,4}(?:银行|网银)?", r"(?:re-?)?authori[sz]\w*|consent|reconnect\w*|(?:connection|link|access).{0,25}expir\w*|expir\w*.{0,20}(?:connection|link)|expired? connection"),
    "auth_no_help": _c("technical", 2.6, "重新授权后 仍然 同步失败 sync still fails after re-authorising",
                       r"(?:又|再|重新|刚).{0,8}(?:网银|银行).{0,12}(?:同意|确认|弄|点).{0,20}(?:还是|不|没)|(?:勾|选)(?:错|成).{0,4}(?:户|账户|尾号|账号)|两个.{0,2}(?:u盾|盾|k宝)|授权.{0,16}(?:还是|仍|依[旧然]|但|却|也|照样|又).{0,10}(?:不|没|失败|报|提示|停)|(?:刚|已经|都|重新).{0,4}授权.{0,14}(?:不|没|失败|报错)",
                       r"(?:re-?)?(?:authori[sz]\w*|connect\w*).{0,30}(?:still|but|again|yet)|still.{0,40}(?:after|though|even).{0,20}(?:re-?)?(?:authori[sz]|connect)\w*"),
    "auth_90_days": _c("technical", 2.0, "银行授权 每 90 天 重新确认 授权有效期 why 90 days",
                       r"三个月.{0,16}(?:银行|网银|同意|点)|银行.{0,10}(?:老|总|每次|隔).{0,6}(?:同意|授权|确认)|(?:提前|现在|先).{0,6}续上|(?:银行|授权).{0,16}(?:还剩|快到期|快失效)|(?:为什么|凭什么|为啥|干嘛|每|老是|总是|总要|又要|隔).{0,14}授权|授权.{0,14}(?:为什么|多久|几天|一次|有效期|期限|延长|期是|周期|频繁|过期前|到期前)|(?:替|代|帮).{0,4}授权|续.{0,2}授权|90\s?天|三个月.{0,10}(?:授权|弄|确认)",
                       r"90 days|every (?:three|3) months|why.{0,40}(?:re-?authori[sz]|consent)\w*|runs? out|heads[- ]up|extend.{0,20}authori[sz]\w*"),
    "auth_reminder": _c("technical", 1.8, "授权 到期前 提醒 到期日 reminder before expiry",
                        r"(?:到期|过期|失效|快到|授权).{0,10}(?:提醒|通知|告诉|提示我)|(?:提醒|通知|告诉).{0,12}(?:到期|过期|授权)", r"remind\w*.{0,30}(?:expir\w*|authori[sz]\w*)|(?:expir\w*|authori[sz]\w*).{0,30}(?:remind\w*|notif\w*)"),
    "bank_account": _c("technical", 1.9, "新增 停用 删除 银行账户 add remove bank account",
                       r"户.{0,8}(?:拿掉|去掉|不想让|停掉|不要了)|(?:有个|这个|老|旧|那个)(?:账?户|对公户).{0,12}(?:不用|暂时|停)|开.{0,6}(?:个|新)户|新户|(?:新增|新加|加|添加|接入?|绑|停用|删除?|去掉|去除|移除|解绑|换).{0,10}(?:BANKS|对公|户头|账户|卡号)|(?:BANKS|对公|户头|账户).{0,14}(?:去掉|去除|删|停用|移除|不用了|解绑|销了?户|接进来|加进来|添加)".replace("BANKS", BANKS),
                       r"(?:add|remove|delete|disconnect|another|second|new|close).{0,20}bank accounts?|bank accounts?.{0,20}(?:removed?|deleted?|added?|disconnect\w*)"),
    "bank_outage": _c("technical", 1.5, "银行接口 维护 超时 bank maintenance timeout",
                      r"(?:银行|行).{0,8}没(?:有)?(?:响应|回应|反应)|(?:拉|取)流水.{0,6}失败|(?:BANKS|同步|接口).{0,10}(?:维护|超时|没有?(?:回应|响应)|繁忙)|(?:维护|超时).{0,10}BANKS|BANKS.{0,6}(?:晚上|夜里|半夜|凌晨|月末|周末)|(?:晚上|夜里|半夜|凌晨).{0,14}(?:BANKS|同步)".replace("BANKS", BANKS), r"bank.{0,20}(?:maintenance|time-?out|timed out|not respond\w*|unavailable)"),
    "bank_mismatch": _c("technical", 1.7, "账户信息 不一致 户名 更新账户信息 account name mismatch",
                        r"户名|账户信息|(?:公司|企业)(?:刚)?.{0,2}(?:更名|改名|换了?名)|账号.{0,6}(?:不一致|不符|对不上)|(?:换|变更|更新).{0,4}营业执照|营业执照.{0,4}(?:换|变)", r"(?:account|company) (?:name|details).{0,20}(?:match|differ|changed?|mismatch)\w*|renamed"),
    "bank_supported": _c("technical", 1.0, "支持 银行 supported banks",
                         r"(?:支持|能接|可以接|对接).{0,6}(?:哪些|什么|哪几家|几家).{0,4}(?:银行|网银)|(?:哪些|什么|哪几家)银行|(?:支持|能接).{0,8}银行",
                         r"(?:which|what) banks?|supported banks?|support.{0,15}bank"),
    "bank_duplicate": _c("technical", 1.5, "流水重复 合并重复 duplicate transactions",
                         r"(?:同一笔|一样的?).{0,14}(?:两次|两条|两遍|两笔|重复)|合(?:到|并).{0,4}(?:一起|一条)|对账单.{0,14}重复|(?:收款|进账|到账|入账|交易).{0,10}(?:两遍|两次|两条|两笔|重复)|(?:流水|交易|记录).{0,8}(?:重复|多了|两遍|两条)|重复.{0,6}(?:流水|交易|记录)|去重",
                         r"duplicated? (?:transactions?|entries|rows|lines|bank)|transactions?.{0,20}(?:twice|duplicate\w*)"),
    "bank_missing": _c("technical", 1.2, "流水 少了几笔 缺少 missing transactions",
                       r"(?:齐|漏).{0,4}(?:没漏|没齐|没有漏|了没)|进出.{0,8}(?:齐|漏|少)|(?:差|少|缺|漏).{0,4}笔|(?:流水|交易).{0,10}(?:少了|缺|漏|不全|没有)|(?:少了|缺|漏).{0,8}(?:流水|交易)",
                       r"missing.{0,15}(?:transactions?|statements?)|transactions?.{0,15}missing"),
    "reconcile": _c("technical", 1.8, "对账 勾对 匹配 余额 reconciliation",
                    r"对账|勾对|对不上|余额.{0,6}(?:不一致|不符|不对)|核销", r"reconcil\w*|balance.{0,20}(?:differ\w*|mismatch|wrong|off)"),
    # book-keeping
    "report": _c("technical", 1.8, "导出 报表 资产负债表 report",
                 r"报表|资产负债表|利润表|现金流量表|损益", r"(?:financial )?reports?|balance sheet|profit and loss|p&l|cash flow statement"),
    "closing": _c("technical", 1.8, "月末结账 反结账 closing period",
                  r"结账|封账|关账|扎账|(?:上个?月|\d月|月份)(?:份|都)?.{0,2}锁|税.{0,4}报完|没审的|未审核|(?:退|改)回.{0,4}上个?月|结帐|反结|期末|会计期间|结转|锁账|月结", r"clos(?:e|ing) (?:the )?(?:period|month|books|year)|re-?open.{0,12}(?:period|month)|month[- ]end|year[- ]end"),
    "voucher": _c("technical", 1.6, "凭证 voucher", r"凭证|分录|断号|摘要模板|记账模板", r"vouchers?|journal entr\w+|postings?"),
    "opening": _c("technical", 1.5, "期初 余额 建账 opening balance", r"期初|建账|初始化账|初始余额", r"opening balances?|set(?:ting)? up (?:the )?books"),
    "chart": _c("technical", 1.4, "会计科目 科目 chart of accounts", r"科目|辅助核算", r"chart of accounts?|ledger accounts?"),
    "currency": _c("technical", 1.6, "外币 汇率 多币种 currency exchange rate", r"外币|汇率|美元|多币种|币种|汇兑", r"(?:foreign |multi-?)currenc\w+|exchange rates?|fx"),
    "tax": _c("technical", 1.6, "报税 申报 税 tax filing", r"报税|申报|纳税(?!人识别)|增值税(?!专)|所得税|税务|税额|个税|税率|小规模|一般纳税人", r"tax(?:es)? (?:filing|return|report|declaration)|fil(?:e|ing) (?:the )?(?:tax\w*|vat)|vat (?:return|rate)|declare"),
    "asset": _c("technical", 1.5, "固定资产 折旧 depreciation", r"固定资产|折旧|摊销", r"fixed assets?|depreciat\w+"),
    "payroll": _c("technical", 1.5, "工资 薪酬 payroll", r"工资|薪酬|薪资|社保|公积金", r"payroll|salar(?:y|ies)|wages?"),
    "inventory": _c("technical", 1.5, "库存 进销存 inventory", r"库存|进销存|存货|仓库", r"inventory|stock"),
    "expense": _c("technical", 1.5, "报销 费用单 expense claim", r"报销|费用单|差旅", r"expense (?:claim|report)s?|reimburse\w*"),
    "import": _c("technical", 1.7, "导入凭证 失败 模板 import",
                 r"(?:传|上传|录).{0,10}(?:分录|凭证|excel|表格).{0,16}(?:打回|失败|不了|不进|不上|不合|拒)|(?:excel|表格).{0,8}(?:传|导)(?!出)|打回|导入|导(?:凭证|不进|进)|(?:用|从).{0,10}导(?!出)|迁移|搬过来|迁过来|搬.{0,6}过来|从.{1,8}(?:转过来|换过来)|上传.{0,6}(?:excel|表格|csv)|模板.{0,6}(?:格式|错误)",
                 r"spread ?sheets?|(?:upload\w*|throw|threw).{0,25}(?:journal|entr|vouchers?)|imports?|importing|imported|migrat\w+|upload.{0,15}(?:csv|excel|spreadsheet|file)"),
    "export": _c("technical", 1.7, "导出凭证 报表 export", r"导出|(?:全年|整年|整套|全套|几年).{0,6}(?:数据|账|凭证|资料)|(?:整套|全部|打包|都).{0,6}下载|数据.{0,4}(?:弄|拿|搬)(?:下来|走|出来)|(?:标准|规定)格式.{0,6}(?:数据|文件)|导一份|导.{0,4}(?:给|报表)|下载.{0,6}(?:数据|账|excel|报表)|导成", r"(?:pull|get|take|download)\w* (?:\w+ ){0,2}(?:out|everything|all)|exports?|exporting|exported|download.{0,15}(?:data|ledger|report|excel|csv)"),
    "backup": _c("technical", 1.5, "数据 备份 恢复 backup restore", r"备份|恢复.{0,4}数据|误删|删错|找回.{0,6}(?:数据|凭证|账)|回收站|还原|手滑|手贱|删.{0,12}(?:捞|找|恢复|弄|拿|要).{0,3}回", r"back-?ups?|restore\w*|recover.{0,15}(?:data|deleted|books?)|deleted by (?:mistake|accident)|accidentally deleted|deleted .{0,25}(?:accident|mistake)|trash|recycle bin"),
    "ocr": _c("technical", 1.7, "发票识别 扫描 票据 OCR", r"识别(?!号)|扫描|拍照|扫票|票据.{0,4}(?:上传|录入)", r"ocr|scan\w*|recogni[sz]\w+|receipt (?:capture|photo)s?"),
    "attachment": _c("technical", 1.3, "附件 上传 文件大小 attachment upload", r"附件|上传|文件.{0,6}(?:太大|大小|格式)", r"attachments?|upload\w*|file (?:size|type|too large)"),
    "slow": _c("technical", 1.6, "页面打开慢 空白 浏览器 缓存 slow blank page", r"等(?:十几|好几|几十|半天|很久).{0,3}(?:秒|分)?|(?:很|太|好|特别|非常|越来越|打开|加载|这么|有点)[慢卡]|卡顿|卡死|卡住|空白|(?:页面|屏幕|网页).{0,4}白|转.{0,3}圈|一直(?:在)?转|没反应|点不动|加载|白屏|打不开|转圈|闪退|崩溃|缓存|浏览器|刷不出", r"slow\w*|loading|blank page|white screen|freez\w+|crash\w*|browsers?|cache|laggy|hangs?"),
    "mobile": _c("technical", 1.4, "手机 App 移动端 小程序 mobile app", r"手机(?:端|上|app|版)|移动端|小程序|安卓|苹果手机", r"mobile|phone app|android|iphone|ios|app"),
    "outage": _c("technical", 1.5, "服务状态 故障 维护 status outage", r"宕机|故障|维护(?:时间|公告|窗口)?|服务状态|系统.{0,4}(?:挂|崩)|全都打不开", r"outage|downtime|maintenance|status page|is .{0,12}down"),
    "multi_company": _c("technical", 1.3, "多账套 账套 多公司 company books", r"账套|帐套|多.{0,3}(?:公司|主体)|(?:两|几|多)家公司|第二家公司|子公司|切换公司", r"(?:multiple|several|second|another|two|switch) (?:compan(?:y|ies)|books|entit(?:y|ies))|company files?"),
    "reminder": _c("technical", 0.8, "提醒 通知 到期提醒 reminder notification", r"提醒|通知|推送", r"remind\w*|notif\w+|alerts?"),
    "still": _c("technical", 0.2, "仍然 失败 still", r"仍[然旧]?|还是(?:不|没|失败|报错|提示|一样|老样子)|依[旧然]|又(?:不行|失败|报错)|没(?:用|效果)|不管用", r"still|again|same (?:error|problem|issue)"),
    "failure": _c("technical", 0.7, "失败 报错", r"失败|报错|错误码|错误代码|出错|不成功|异常", r"fail\w*|errors?|broken"),
    # money
    "refund": _c("refund", 3.2, "退款 申请 审核 原路退回 多久到账 refund request", r"退款|退钱|退到|(?<![后倒败隐消撤回清])退\s?(?:一|两|这|那|掉|了吧|inv|钱|多)|退.{0,4}(?:支付宝|微信|卡里|卡上)|退费|退给我|退回来|退还|退回.{0,6}(?:钱|款|费)|把钱退|钱.{0,4}退|能退|可以退|要退|全额退|退不退|退一下|退掉|把钱.{0,4}(?:还|要回)|钱.{0,10}(?:要回来|拿回来)|(?:多|扣|收|付).{0,10}(?:要回来|拿回来)", r"refund\w*|money back|reimburs\w+ me|pay me back"),
    "refund_time": _c("refund", 0.6, "退款 多久到账 退款记录 进度 refund how long", r"(?:钱|款).{0,6}没.{0,3}(?:退|到|收)|还没退|(?:批准?|通过|同意)了?.{0,8}(?:钱|退|款)|退款?.{0,6}(?:走到|到哪|进展|处理到|状态|批)|退.{0,20}(?:没收到|没到|未到|没见|没看到|还没)|退.{0,12}(?:到账|多久|多长时间|几天|什么时候|进度)|(?:到账|多久|多长时间|几天|进度).{0,10}退", r"refund.{0,30}(?:long|arrive|status|when|days|take)|(?:when|how long).{0,30}refund"),
    "refund_policy": _c("refund", 0.5, "退款政策 什么情况可以退款 全额退款 refund policy", r"(?:剩下|剩余|没用完|没用).{0,8}退|后悔|买错|拍错|不满意|退多少|(?:能|可以|可不可以|能不能|还能).{0,4}退|退不退|(?:买|付|购|续费).{0,8}(?:天|周|月|小时).{0,12}退|不想(?:要|用)了.{0,6}退|退.{0,4}(?:政策|规则|条件|规定|标准)|(?:几天|多久|无理由).{0,6}(?:内)?.{0,4}退", r"refund (?:policy|rules?|conditions?|terms?)|eligible.{0,20}refund|days.{0,20}refund|(?:how long|how many days|until when).{0,30}(?:refund|money back)"),
    "double_charge": _c("billing", 2.4, "重复扣款 重复收费 扣了两次 duplicate charge", r"(?<!对)账单.{0,20}重复|(?:两|2)张.{0,6}账单|重复.{0,6}(?:账单|退)|重复(?:扣|收|付|支付|缴)|(?:扣|收(?!款)|付|刷)了?.{0,6}(?:两次|2次|两遍|二次|两笔|2笔|双份)|(?:各|都|重复)[付交]了一[次遍]|多(?:扣|收)|多(?:付|交|缴)了?.{0,3}(?:一[笔次份]|那)|(?:扣|收|付|刷|交)了?.{0,4}两[回遍]|(?:两次|两笔|2笔)(?:扣|收|付)", r"(?:charged?|billed|paid|payments?|debited|deducted|took|taken).{0,20}(?:twice|two times|double)|duplicated? (?:charge|payment|bill)\w*|double[- ](?:charge|bill|payment)\w*|(?:twice|double).{0,20}(?:charge|bill|paid)\w*"),
    "pre_auth": _c("billing", 1.6, "银行显示两笔扣款 冻结 重复扣费 pending hold", r"冻结|(?:款|钱|卡|笔|金额).{0,10}冻|暂扣|处理中|预授权|(?:两|2|二)(?:条|笔|个).{0,6}(?:一样|相同|扣|记录)", r"pre-?authori[sz]ation|on hold|frozen|pending|(?:two|2) (?:lines|entries|charges)"),
    "charge": _c("billing", 1.5, "扣款 扣费 账单 charge", r"扣款|扣费|扣了|(?<!怎么)划扣|被扣|缴费", r"charg(?:e|ed|es|ing)|billed|debited"),
    "bill": _c("billing", 1.6, "账单 费用 明细 bill", r"(?<!对)账单|帐单|费用明细|消费记录|缴费记录", r"bills?|billing|statement of charges"),
    "pay_method": _c("billing", 1.7, "支付方式 付款方式 对公转账 payment method", r"(?:换成|改成|改用|换用|收|用|付).{0,3}(?:微信|支付宝|信用卡|银行卡)|(?:支付|付款|扣款)(?:方式|账户|渠道)|换.{0,4}(?:卡|支付)|信用卡付|对公(?:转|付|打|汇|支)|公户.{0,4}(?:转|付|打|汇)|(?:个人|私人).{0,3}(?:卡|账户|户头)|转账|打款|汇款|支付宝|微信(?:支付|付)|绑卡|付款", r"payment methods?|credit card|pay by|bank transfer|wire transfer|alipay|wechat pay|(?:change|update|replace|new).{0,12}card|\bpay"),
    "pay_failed": _c("billing", 2.0, "扣款失败 支付 拒绝 重新支付 payment failed declined", r"(?:支付|付款|扣款|扣费|续费|付不).{0,6}(?:失败|不了|不成功|不出去|不上)|付不了|(?:付款|支付|扣款|扣费|刷卡|卡).{0,8}(?:拒|不过|扣不)|余额不足|额度|(?:没|未|不)扣成|扣.{0,3}(?:不成|没成)|限额|逾期|欠费|宽限|服务.{0,3}停|被停用|只读", r"payment.{0,20}(?:fail\w*|declin\w*|reject\w*)|card.{0,12}declin\w*|past due|overdue|grace period|suspend\w*"),
    "renewal": _c("plan_change", 1.4, "自动续费 续费时间 renewal", r"续费|续订|自动扣|自动续|续期|(?:到期|续).{0,6}扣", r"renew\w*|auto-?renew\w*|recurring"),
    "renewal_time": _c("billing", 1.6, "支付方式和续费时间 到期当天 扣款 renewal date", r"下次.{0,8}扣|扣.{0,6}(?:说一声|通知|提醒)|(?:续费|扣费|扣款|扣钱|续订).{0,10}(?:时间|哪天|什么时候|几点|几号|提前)|(?:什么时候|哪天|几号|几时).{0,8}(?:扣|续费)", r"when.{0,30}(?:renew\w*|charged?|billed)|(?:renewal|billing) date"),
    "price": _c("billing", 1.2, "各版本价格 区别 price plans", r"价格|多少钱|收费|什么价|多少银子|(?:哪个|几个|什么|各)档收费标准|报价|费用是|怎么收费|贵", r"pric\w+|how much|costs?|fees?"),
    "discount": _c("billing", 1.4, "优惠 折扣 优惠券 discount coupon", r"优惠|折扣|打折|促销|代金券|满减|教育价|公益", r"discounts?|coupons?|promo\w*|vouchers? code|non-?profit"),
    "contract": _c("billing", 1.3, "合同 采购 盖章 contract", r"合同|盖章|采购流程|框架协议", r"contracts?|purchase order|agreement"),
    # invoices (the customer's own fapiao)
    "invoice": _c("invoice", 2.2, "电子发票 开具 抬头 税号 下载 invoice", r"发票|开票|(?<![股车机彩门邮支汇影选投传])票(?![房据选价数])|开(?:的|过的?|了|出来的|张|个)票|(?:上次|之前|以前).{0,6}的?票(?!据|房)|开具|专票|普票|电子票|数电票|税票", r"invoic\w*|fapiao|vat receipt|tax receipt|receipts?"),
    "invoice_title": _c("invoice", 1.8, "发票抬头 税号写错 invoice title tax id", r"抬头|税号|(?:公司|单位|企业)(?:名称?|名字|全称)?.{0,8}(?:打错|写错|填错|不对|少打|少了|错了).{0,20}票|票.{0,10}(?:公司|单位)(?:名|名字|名称).{0,8}(?:错|不对|少)|(?:发票|票).{0,8}(?:名称|名字|全称|写错|错了|错字|少了|漏了|不对|改)|(?:写错|填错|打错|写漏).{0,8}票|开票.{0,3}(?:信息|资料|名)|公司名.{0,6}(?:写错|错|改)|纳税人识别号", r"(?:invoice|company|billing) (?:title|name|details|header)|tax (?:id|number)|vat (?:id|number)|(?:title|name|header)\b.{0,15}(?:on|of).{0,12}(?:invoice|fapiao|receipt)|(?:invoice|fapiao|receipt).{0,25}(?:wrong|old|other) .{0,12}name"),
    "invoice_red": _c("invoice", 1.6, "发票 作废 冲红 重开 reissue invoice", r"红冲|红字|冲红|票.{0,12}作废|作废.{0,12}票|重开|重新开|换开", r"re-?issu\w*|credit notes?|void|cancel.{0,12}invoice|correct.{0,15}invoice|new invoice"),
    "invoice_when": _c("invoice", 0.8, "没收到发票 重新下载 download invoice", r"(?<!开)票.{0,12}(?:翻遍|找不到|不见|丢了|没了|没收到|再[发弄下]|自己下|失败|打错|xml|pdf)|(?:再[发弄下]|重发|找回).{0,6}票|发票.{0,6}(?:链接|失效|打不开|重发)|重发.{0,6}发票|(?:再|重新|补).{0,4}(?:下载|下|发).{0,4}(?:一?[份张遍次])?.{0,4}发票|发票.{0,10}(?:再下|再发|再来|补发|找不到|不见|丢)|(?:以前|之前|去年|上个?月|历史).{0,6}发票|(?:发票|票).{0,10}(?:没收到|收不到|没到|多久|什么时候|几天|寄|下载|发送)|(?:没收到|收不到|下载|寄).{0,8}(?:发票|票)", r"invoice.{0,25}(?:receive\w*|arrive\w*|download\w*|email\w*|sent)|(?:receive\w*|download|get|find).{0,20}invoice"),
    "invoice_special": _c("invoice", 0.9, "增值税专用发票 资料 special VAT invoice", r"专票|专用发票|增值税发票|(?:抵税|抵扣|进项).{0,8}票|票.{0,20}抵[税扣]", r"special (?:vat )?invoice|vat invoice|special fapiao"),
    # account
    "password": _c("account", 2.2, "忘记密码 重置 password reset", r"密码(?!箱)|口令", r"passwords?|passcodes?|pass ?phrases?|(?:login|sign-?in) (?:details|credentials)"),
    "login": _c("account", 2.0, "登录 账号 锁定 login locked", r"登录|登陆|登不|进不[去来]|进得去|不让(?:我)?[进登]|登入|(?:账|帐)?号.{0,8}(?:封|冻|锁)|(?:输|敲|试|填|按)错.{0,4}(?:好?几|多|太多|次|遍|回|了)|进不去|账号.{0,4}(?:锁|冻结|封)|被锁|锁定|解锁", r"log ?in|logg(?:ed|ing) (?:in|out)|sign(?:ing)? ?in|locked|lock(?:ed)? out|unlock|(?:typed?|entered?) .{0,12}wrong|(?:get|let) .{0,6}back in"),
    "two_factor": _c("account", 2.0, "两步验证 更换手机 two-factor", r"(?:六|6)位数?(?:字|码|的)?(?=.{0,12}(?:登|填|输|码|看))|(?:登录|填|输).{0,8}(?:六|6)位数|手机.{0,10}(?:坏|丢|报废|被偷|掉水|不见).{0,30}(?:登|进|验证|码)|(?:换|新).{0,4}手机.{0,16}(?:登|进不|码)|两步|验证器|二次验证|双重|双因素|验证码|动态.{0,2}(?:码|口令)|身份验证器|短信.{0,4}(?:收不到|没收到)|换.{0,2}手机.{0,10}验证", r"two[- ](?:factor|step)|2fa|mfa|otp|verification codes?|authenticator|(?:six|6)[- ]digit|(?:back-?up|recovery) codes?|sms code"),
    "member": _c("account", 1.8, "添加成员 邀请 设置权限 member invite", r"成员|邀请|新来|加.{0,4}(?:同事|会计|员工|人|用户)|新同事|(?:同事|会计|员工|出纳|成员).{0,8}(?:离职|辞职|走了|不干)|加入链接|子账号|移除成员|账号数", r"members?|invit\w+|team ?mates?|colleagues?|(?:add|remove|new|invite).{0,12}(?:users?|people|person|accountants?|staff|employees?)"),
    "role": _c("account", 1.8, "成员 设置权限 角色 permission role", r"权限(?!想?.{0,3}交)|角色|身份(?!验证|证)|乱(?:点|改|动)|管理员|只读(?!状态)|(?:只|仅).{0,8}(?:看|查看|浏览)|不(?:能|让|给|许).{0,3}(?:改|编辑|修改|删)|看不到.{0,6}菜单|所有者|转让|超管", r"permissions?|roles?|admin\w*|read-?only|owner\w*|access rights?"),
    "admin_change": _c("account", 2.2, "更换管理员 change administrator", r"(?:最高权限|主账号|超管|管理权).{0,10}(?:交|转|移|过户|换)|(?:负责|管).{0,6}(?:这|系统).{0,6}(?:人|同事).{0,6}(?:离职|走|辞职|联系不上)|(?:换|转让|变更|更换|移交|交接|改).{0,6}(?:管理员|所有者|负责人)|(?:管理员|所有者|负责人).{0,12}(?:换|离职|走了|不在|转|变更|移交|联系不上|辞职)", r"(?:change|transfer|replace|new|switch).{0,20}(?:admin\w*|owner\w*)|(?:admin\w*|owner).{0,20}(?:left|gone|quit|resigned|changed?)"),
    "contact_change": _c("account", 1.8, "更换 注册手机号 change email phone", r"(?:换|改|修改|更换|变更|解绑|绑定).{0,6}(?:邮箱|手机|电话|号码)|(?:邮箱|手机号|手机|电话).{0,8}(?:换|改|更换|变更|解绑|停用|不用了)", r"(?:change|update|switch|new).{0,20}(?:e-?mail|phone|mobile number)|(?:e-?mail|phone).{0,15}(?:changed?|updated?)"),
    "delete_account": _c("account", 2.2, "注销 账号 删除 数据 delete account", r"注销.{0,4}(?:账号|帐号|账户|用户)|(?:账号|帐号|账户).{0,4}注销|删除.{0,4}(?:账号|帐号|账户|公司|所有数据|我的数据)|彻底删", r"(?:delete|close|erase|deactivate|remove).{0,20}(?:accounts?|(?:my|our|all|personal) data)"),
    "sso": _c("account", 1.8, "单点登录 SSO 企业微信 钉钉", r"单点登录|企业微信|钉钉|飞书", r"sso|single sign[- ]on|saml|wecom|dingtalk|lark"),
    "security": _c("account", 1.6, "数据安全 备份 隐私 data security", r"(?:动|转走|拿走|划走).{0,4}(?:我们?的?|我的)?钱|密码.{0,8}(?:存不存|保存|会不会)|(?:员工|你们的?人|谁).{0,8}(?:看到|能看|看得到|看见)|数据.{0,6}安全|泄[露漏]|服务器.{0,3}(?:在|上|放)|(?:看到|看见|查看|偷看|访问).{0,6}我们的.{0,4}(?:账|数据)|(?:存|放).{0,4}(?:国内|国外|境内|境外|哪里|什么地方)|安不安全|加密|安全性|等保|隐私|登录(?:记录|日志|设备)|存在哪|存放在|操作日志|审计日志|(?:异地|陌生|异常).{0,4}(?:登录|设备)|安全吗", r"secur\w+|who .{0,25}(?:can )?(?:see|read|access)|where .{0,15}(?:keep|store)|encrypt\w*|privacy|gdpr|iso ?27001|audit (?:log|trail)|where.{0,20}(?:data|stored)|(?:login|sign-?in) (?:history|activity|record)s?|unknown device"),
    # plans
    "upgrade": _c("plan_change", 2.3, "升级套餐 差价怎么算 upgrade plan", r"(?<!银行)升级(?!成基本户)|(?:更|再|最)(?:贵|高|大|好).{0,4}(?:版|档|套餐)|高(?:档|一档|级)|(?:往上|向上)(?:换|调)|升到|升为|补?差价|补多少|要补.{0,4}钱|从.{1,8}(?:换|升|改|转).{0,3}(?:到|成|为|去)?.{0,4}(?:专业|企业|高级|旗舰)|换成.{0,6}(?:专业|企业|高级)版", r"upgrad\w*|(?:move|switch|change|go) (?:up|from).{0,20}(?:to|plan)|move up|(?:higher|bigger|larger|better) (?:plan|package|tier)"),
    "downgrade": _c("plan_change", 2.3, "降级 选择较低的版本 downgrade plan", r"降级|降到|降为|降套餐|(?:换|改|用).{0,6}(?:便宜|低|小)|便宜(?:点|些|一点)的?(?:版|套餐)", r"downgrad\w*|cheaper plan|lower plan|smaller plan"),
    "cancel": _c("plan_change", 2.3, "关闭自动续费 取消续费 停用后的数据 cancel subscription", r"取消.{0,6}(?:订阅|套餐|服务|续费|续订)|退订|(?:不想|不再|不打算|不准备|不会|停止|先不|不)(?:再)?(?:续|用了|使用)|(?:关|停|取消).{0,6}(?:自动|续)|终止|停业|(?:别|不要|不用|停止).{0,4}再?扣.{0,4}(?:钱|款|费)|不[交付]钱|(?:数据|账|东西|里面的?).{0,8}(?:还在|清掉|清空|会不会没|保留)", r"cancel\w*|unsubscrib\w*|stop (?:the |my |our )?(?:subscription|plan|renew\w*)|terminate|stop .{0,12}(?:charged|paying|billing)|(?:wiped?|deleted?|erased?) right away"),
    "plan": _c("plan_change", 1.3, "套餐 版本 升级 降级 plan subscription", r"套餐|订阅|免费.{0,3}版|(?:几|哪|各)个版本|(?:基础|标准|专业|企业|高级|旗舰|免费|入门)版|版本.{0,4}(?:区别|不同|对比)", r"plans?|subscriptions?|(?:basic|standard|pro|professional|enterprise|starter|free) (?:plan|edition|tier|version)|tiers?|(?:to|from|on|is) (?:the )?(?:basic|professional|pro|enterprise|standard)"),
    "plan_compare": _c("plan_change", 1.4, "各版本价格和区别 plan comparison", r"(?:几个|各|什么|哪个)档|(?:差|区别)在哪|(?:买|选|用)哪个(?:版|合适|好)?|(?:哪些|有什么|几个|几种|各个?|所有).{0,4}(?:套餐|版本)|(?:套餐|版本|版).{0,8}(?:有哪些|介绍|对比|区别|不同|差别|差在|包含|包括)", r"(?:compare|comparison|difference|what.{0,20}included|which).{0,25}(?:plans?|tiers?|editions?)|plans?.{0,20}(?:differ|compare|include)\w*"),
    "cycle": _c("plan_change", 1.8, "月付改年付 付款周期 billing cycle", r"月付|年付|(?:月|年)[费付].{0,6}(?:改|换|转|变).{0,4}[年月]|季付|按月|按年|[一整]年的?.{0,3}[交付买缴]|[交付买缴].{0,3}[一整]年|包年|包月|(?<!\d)月交|年交|月缴|年缴|一年一[付交缴次]|一次(?:交|付|缴)一年|整年", r"(?:monthly|yearly|annual(?:ly)?)|billing cycle|per (?:month|year)"),
    "trial": _c("plan_change", 1.6, "试用 延期 试用期 trial", r"试用|先用用|先试|试一?试再|用用看|体验版|免费用", r"trials?|try (?:it )?(?:for )?free"),
    "seats": _c("plan_change", 1.9, "增加或减少席位 seats", r"(?:加|增加|减少|买|多).{0,6}(?:席位|坐席|座位|用户数|账号数|人数|名额)|席位|名额|人头|多(?:加)?.{0,3}(?:几|一|两|三|\d)个?人|(?:加|减)(?:几|一|两|三|\d)?个?人|加人|座位|(?:减|去)掉?.{0,6}(?:席|座|人头|账号)|人数(?:不够|超|上限)", r"(?:add|more|extra|reduce|fewer|buy|additional).{0,8}(?:seats?|licen[cs]es?)|seats?|(?:user )?slots?|(?:more|extra|two|new) users?|how many people"),
    # api
    "api": _c("api", 2.6, "开放接口 密钥 API", r"(?<!银行)接口|开放平台|对接(?:用|程序|自家|你们)|(?:自家|自己|我们)的?(?:erp|系统|程序)|程序.{0,6}调|对接开发|写程序|二次开发|系统.{0,3}对接|对接.{0,6}(?:系统|erp|软件)|开发文档|开发者", r"apis?|endpoints?|sdk|developers?|integrat\w+"),
    "api_key": _c("api", 2.4, "API 密钥 新建密钥 api key", r"密钥|秘钥|令牌|密文|token", r"(?:api|access|secret)[ -]?(?:keys?|tokens?)|appkey|tokens?|bearer|client secret|credentials?|keys?"),
    "webhook": _c("api", 2.8, "Webhook 回调 验签 重试", r"回调|(?:主动|你们)推|推.{0,4}(?:事件|消息|通知)|事件.{0,6}(?:推|再发|重发)|推(?:送)?(?:过来|给我)|收不到.{0,8}(?:推|事件)|验签|事件推送", r"webhooks?|call-?backs?|event (?:push|notification)s?|signature"),
    "rate_limit": _c("api", 2.4, "请求太频繁 接口 rate limit too many requests", r"限流|限频|频率限制|调用(?:次数|频率|上限|太频繁)|一分钟.{0,8}(?:几|多少)?次|(?:被|给)(?:你们)?(?:限|挡)|请求.{0,6}(?:太多|过多|频繁|上限)|(?<!\d)429(?!\d)|每(?:分钟|秒).{0,6}(?:多少|几).{0,3}次", r"rate.?limit\w*|too many requests|throttl\w*|429|qps|quota|(?:requests?|calls?|queries) (?:per|a|an|each) (?:minute|second|hour)"),
    "api_auth": _c("api", 1.6, "API 401 403 鉴权 认证 unauthorized", r"(?<!\d)40[13](?!\d)|鉴权", r"401|403|unauthori[sz]ed|forbidden|oauth"),
    "sandbox": _c("api", 2.0, "沙箱 测试环境 sandbox", r"沙箱|沙盒|测试环境", r"sandbox|test environment|staging"),
    # about us
    "hours": _c("other", 1.5, "客服 工作时间 联系方式 service hours", r"(?:客服|人工|上班|工作|服务).{0,4}时间|几点.{0,4}(?:上班|下班)|联系(?:方式|电话)|周末.{0,6}(?:有人|上班|客服)|节假日", r"(?:support|office|business|opening|working) hours|contact (?:you|support|number)|phone number of"),
    "training": _c("other", 1.2, "培训 教程 视频 新手 training", r"培训|教程|视频|新手|入门|上手", r"training|tutorials?|webinars?|getting started|onboarding"),
    "partner": _c("other", 1.2, "代理 合作 渠道 代账 partner", r"代理商|合作|加盟|渠道|代账公司", r"partners?\w*|reseller|affiliate"),
}

ERROR_CODE = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{1,4}-?\d{3,5}(?![A-Za-z0-9-])")
SPLIT_CODE = re.compile(r"(?<![A-Za-z0-9])[eE][\s_-]?(\d{4})(?!\d)")
INVOICE_NUMBER = re.compile(r"(?<![A-Za-z0-9-])[A-Za-z]{2,6}-?\d[\d-]{3,}\d(?![A-Za-z0-9])")
CITATION = re.compile(r"\[(KB-[A-Za-z0-9-]+)\]")
AMOUNT = re.compile(r"(?:(?:[¥¥$]|(?<![a-z])(?:cny|rmb|usd))\s?\d[\d,]{0,24}(?:\.\d+)?)|(?<![\d.A-Za-z-])\d[\d,]{0,24}(?:\.\d+)?\s?(?:元|块|人民币|cny|rmb|yuan|usd|美元|dollars?)", re.IGNORECASE)


def concepts_in(text: str) -> set[str]:
    """Return the names of the concepts that a normalised text speaks of."""
    return {name for name, concept in CONCEPTS.items() if concept.pattern.search(text)}


def error_codes(text: str) -> list[str]:
    """Return the error codes of a text, such as E3001, in order, each once; ticket and invoice numbers are longer."""
    joined = SPLIT_CODE.sub(r"E\1", text)
    found = [code.upper() for code in ERROR_CODE.findall(joined)]
    return list(dict.fromkeys(code for code in found if not code.startswith(("KB", "INV", "FY", "C", "T", "A", "M", "R", "Q"))))

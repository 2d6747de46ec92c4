{{! linear_end.cu - what becomes of the sum of output `output` of row `column` of the batch. }}
{{#weighed}}
            total *= by;
{{#gated}}
            total_up *= by;
{{/gated}}
{{/weighed}}
{{#bias}}
            total += bias[output];
{{#gated}}
            total_up += bias[{{out}} + output];
{{/gated}}
{{/bias}}
            const float made = {{made}}{{#add}} + y[column * {{y_row}} + output]{{/add}};
            y[column * {{y_row}} + output] = {{y_from}}(made);
{{#twin}}
            y_operands[column * {{twin_row}} + output] = operand_of(made);
{{/twin}}
